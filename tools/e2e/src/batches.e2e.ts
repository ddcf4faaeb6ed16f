import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { until } from '@llm-d/soak';
import { ask, eventsOf, open } from './ask.ts';
import { type ApiError, jsonOf } from './openai.ts';
import { startTestStack, type TestStack } from './test-stack.ts';

const path = '/v1/completions';

interface Batch {
  readonly id: string;
  readonly choices: readonly { readonly index: number; readonly text: string }[];
  readonly usage?: {
    readonly prompt_tokens: number;
    readonly completion_tokens: number;
    readonly total_tokens: number;
  };
}

let stack: TestStack;
let uniqueUrl: string;

beforeAll(async () => {
  stack = await startTestStack({ workers: { encode: 0, prefill: 2, decode: 2 } });
  uniqueUrl = await stack.startCoordinator('unique', {
    pipeline: { wire: { leg_request_id: 'unique' }, max_batch_size: 4 },
  });
  // An answer tells which prompt it is for.
  await stack.configure('decode', { mode: 'echo' });
});

afterAll(() => stack.stop());

afterEach(async () => {
  for (const role of ['prefill', 'decode'] as const) {
    await stack.configure(role, { fault: '', itlMs: 0 });
  }
});

/** What the workers answer to each prompt when it is asked alone. */
function askAlone(prompts: readonly unknown[], fields: object): Promise<Batch[]> {
  return Promise.all(
    prompts.map(async (prompt) => {
      const answer = await ask(stack.publicUrl, { path, body: { ...fields, prompt } });
      expect(answer.status).toBe(200);
      return jsonOf<Batch>(answer);
    }),
  );
}

const sum = (numbers: readonly number[]): number => numbers.reduce((a, b) => a + b, 0);

/** Puts the answer together from its events; choices in order of index. */
function gathered(events: readonly string[]): Batch {
  const texts = new Map<number, string>();
  const chunks = events
    .filter((data) => data !== '[DONE]')
    .map((data) => JSON.parse(data) as Batch);
  for (const { choices } of chunks) {
    for (const { index, text } of choices) texts.set(index, (texts.get(index) ?? '') + text);
  }
  const ids = new Set(chunks.map(({ id }) => id));
  expect(ids.size).toBe(1);
  const usages = chunks.flatMap(({ usage }) => usage ?? []);
  expect(usages).toHaveLength(1);
  return {
    id: [...ids].join(),
    choices: [...texts].toSorted(([a], [b]) => a - b).map(([index, text]) => ({ index, text })),
    ...(usages[0] ? { usage: usages[0] } : {}),
  };
}

const words = ['One', 'The second prompt is longer than the first.', 'Größe 北京 🌍'];
const lists = [
  [1, 2, 3],
  [40, 50],
  [600, 700, 800, 900],
];
const many = Array.from({ length: 64 }, (_, i) => `This is prompt number ${i}`);

describe('a batch of prompts (C36)', () => {
  it.each([
    { name: 'texts', prompts: words, n: 1 },
    { name: 'lists of token ids', prompts: lists, n: 1 },
    { name: 'two samples each', prompts: words, n: 2 },
    { name: '64 texts', prompts: many, n: 1 },
    { name: 'a list of one text', prompts: words.slice(0, 1), n: 1 },
    { name: 'a list of one list', prompts: lists.slice(0, 1), n: 2 },
  ])('is answered as its prompts are one by one: $name', async ({ name, prompts, n }) => {
    const fields = { model: 'sim/model', max_tokens: 8, n, temperature: 0 };
    const alone = await askAlone(prompts, fields);
    const texts = alone.flatMap(({ choices }) => choices.map(({ text }) => text));
    expect(new Set(texts).size).toBeGreaterThan(prompts.length / 2);
    const requestId = `batch-${name.replaceAll(' ', '-')}`;
    const body = { ...fields, prompt: prompts };

    const answer = await ask(stack.publicUrl, { path, requestId, body });
    expect(answer.status).toBe(200);
    const whole = jsonOf<Batch>(answer);
    expect(whole.choices.map(({ index, text }) => [index, text])).toEqual([...texts.entries()]);
    const usages = alone.flatMap(({ usage }) => usage ?? []);
    expect(whole.usage).toMatchObject({
      prompt_tokens: sum(usages.map(({ prompt_tokens: count }) => count)),
      completion_tokens: sum(usages.map(({ completion_tokens: count }) => count)),
      total_tokens: sum(usages.map(({ total_tokens: count }) => count)),
    });

    const streamed = await ask(stack.publicUrl, {
      path,
      requestId: `${requestId}-s`,
      body: { ...body, stream: true, stream_options: { include_usage: true } },
    });
    expect(streamed.headers['content-type']).toMatch(/^text\/event-stream/);
    const events = eventsOf(streamed);
    expect(events.filter((data) => data === '[DONE]')).toHaveLength(1);
    expect(events.at(-1)).toBe('[DONE]');
    const said = gathered(events);
    expect(said.choices.map(({ index, text }) => [index, text])).toEqual([...texts.entries()]);
    expect(said.usage).toMatchObject({
      prompt_tokens: whole.usage?.prompt_tokens,
      completion_tokens: whole.usage?.completion_tokens,
    });

    for (const id of [requestId, `${requestId}-s`]) {
      const legs = await stack.legs(id);
      expect(legs.filter(({ profile }) => profile === 'decode')).toHaveLength(prompts.length);
      // Several sequences cannot share a hand-off: these go to decode alone.
      const records = await stack.records(id, 'decode');
      const sources = records.map(({ kv }) => kv?.source);
      expect(new Set(sources)).toEqual(new Set([n === 1 ? 'external' : 'local']));
    }
  });

  it('gives each leg an id of its own where that is configured', async () => {
    const body = { model: 'sim/model', prompt: words };
    const answer = await ask(uniqueUrl, { path, requestId: 'unique-1', body });
    expect(answer.status).toBe(200);
    expect(answer.headers['x-request-id']).toBe('unique-1');
    for (const role of ['prefill', 'decode'] as const) {
      for (const index of words.keys()) {
        expect(await stack.records(`unique-1-${role}-${index}`, role)).toHaveLength(1);
      }
    }
  });

  it.each([
    { prompt: ['a', 1], param: 'prompt[1]' },
    { prompt: ['a', ''], param: 'prompt[1]' },
    { prompt: [[1], [-1]], param: 'prompt[1][0]' },
    { prompt: [[1.5]], param: 'prompt[0][0]' },
    { prompt: [1.5], param: 'prompt[0]' },
    { prompt: [1, 'a'], param: 'prompt[1]' },
    { prompt: [null], param: 'prompt[0]' },
    { prompt: null, param: 'prompt' },
    { prompt: undefined, param: 'prompt' },
    { prompt: ['a', 'b', 'c', 'd', 'e'], param: 'prompt' },
  ])('is refused with the place before any leg: $prompt', async ({ prompt, param }) => {
    const requestId = `refused-${JSON.stringify(prompt)?.replaceAll(/[^a-z0-9]/g, '-') ?? 'missing'}`;
    const answer = await ask(uniqueUrl, { path, requestId, body: { model: 'sim/model', prompt } });
    expect(answer.status).toBe(400);
    expect(jsonOf<ApiError>(answer).error.param).toBe(param);
    expect(await stack.legs(requestId)).toEqual([]);
  });

  it('ends with one error event when a worker breaks in the middle (C03)', async () => {
    await stack.configure('decode', { fault: 'reset;after=3', itlMs: 5 });
    const requestId = 'batch-breaks';
    const body = { model: 'sim/model', prompt: words, stream: true, max_tokens: 8 };
    const answer = await ask(stack.publicUrl, { path, requestId, body });
    expect(answer.status).toBe(200);
    const events = eventsOf(answer);
    expect(events).not.toContain('[DONE]');
    expect(JSON.parse(events.at(-1) ?? '')).toMatchObject({
      error: { code: 'UPSTREAM_UNREACHABLE', step: 'decode', request_id: requestId },
    });
    expect(events.filter((data) => data.includes('"error"'))).toHaveLength(1);
  });

  it("hands on a worker's own refusal", async () => {
    const body = { model: 'sim/model', prompt: lists, temperature: -3 };
    const answer = await ask(stack.publicUrl, { path, body });
    const alone = await ask(stack.publicUrl, { path, body: { ...body, prompt: lists[0] } });
    expect(answer.status).toBe(alone.status);
    expect(jsonOf<ApiError>(answer).error.type).toBe(jsonOf<ApiError>(alone).error.type);
  });

  it('lets go of all workers when the client leaves (C04)', async () => {
    await stack.configure('decode', { fault: 'stall;after=2;ms=60000' });
    const requestId = 'batch-left';
    const client = new AbortController();
    const body = { model: 'sim/model', prompt: words, stream: true, min_tokens: 8 };
    const answer = await open(stack.publicUrl, { path, requestId, body, signal: client.signal });
    answer.body.on('error', () => {});
    await until('three workers at work', async () => {
      const records = await stack.records(requestId, 'decode');
      const isBusy = records.every(({ outcome }) => outcome.completionTokens === 2);
      return records.length === 3 && isBusy ? true : undefined;
    });
    client.abort();
    await until('three workers free', async () => {
      const records = await stack.records(requestId, 'decode');
      return records.every(({ outcome }) => outcome.status === 'aborted') ? true : undefined;
    });
    expect(await stack.summary(requestId)).toMatchObject({ outcome: 'cancelled', status: 499 });
  });

  it('leaves no lease held and no worker down', async () => {
    // Hand-offs of the client that left are given back after it.
    const states = await until('workers without work and leases', async () => {
      const now = await stack.states();
      const isFree = now.every(({ running, leases }) => running === 0 && leases.held === 0);
      return isFree ? now : undefined;
    });
    for (const state of states) {
      expect(state).toMatchObject({ running: 0, waiting: 0, leases: { held: 0 } });
      expect(state.deathCause).toBeUndefined();
    }
  });
});
