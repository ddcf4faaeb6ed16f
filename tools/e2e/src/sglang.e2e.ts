import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { chatOf, drawImage, type Proxy, startProxy, until } from '@llm-d/soak';
import { ask, eventsOf, open } from './ask.ts';
import { expectedReport, matrixRequest } from './matrix-cases.ts';
import { type ApiError, chunksOf, jsonOf, saidIn } from './openai.ts';
import { onePodEach, type PodRecord, startTestStack, type TestStack } from './test-stack.ts';

const path = '/v1/chat/completions';

let stack: TestStack;
let proxy: Proxy;
let urls: Record<'OpenAI' | 'tokens-in' | 'proxied', string>;
let count = 0;

beforeAll(async () => {
  stack = await startTestStack({ kvConnector: 'kv-sglang', workers: onePodEach });
  proxy = await startProxy(stack.internalUrl);
  urls = {
    OpenAI: stack.publicUrl,
    'tokens-in': await stack.startCoordinator('tokens-in', { usesOpenAiFormat: false }),
    proxied: await stack.startCoordinator('proxied', { gateway: { address: proxy.url } }),
  };
});

afterAll(async () => {
  await stack.stop();
  await proxy.close();
});

afterEach(async () => {
  proxy.tamper({});
  for (const role of ['prefill', 'decode'] as const) {
    await stack.configure(role, { fault: '', itlMs: 0 });
  }
});

const nextId = (): string => `sglang-${(count += 1)}`;

/** The record of a leg that is over. */
const ended = (requestId: string, role: PodRecord['role']): Promise<PodRecord> =>
  until(`the end of ${requestId}`, async () => {
    const [record] = await stack.records(requestId, role);
    return record?.outcome.status === 'running' ? undefined : record;
  });

/** Nobody waits in a room for somebody who does not come. */
async function expectEmptyRooms(): Promise<void> {
  await until('empty rooms', async () => {
    const states = await stack.states();
    const isIdle = states.every(({ rooms, running }) => rooms.waiting === 0 && running === 0);
    return isIdle || undefined;
  });
}

describe('prefill-decode with SGLang workers', () => {
  const cells = (['chat', 'completions', 'generate'] as const).flatMap((api) =>
    (api === 'completions' ? [[]] : [[], [0]]).flatMap((images) =>
      (['OpenAI', 'tokens-in'] as const).flatMap((format) =>
        [true, false].map((isStreamed) => ({ api, images, format, isStreamed })),
      ),
    ),
  );

  it.each(cells)(
    'answers $api with $images.length pictures (streamed: $isStreamed) over $format legs',
    async ({ format, ...cell }) => {
      const id = nextId();
      const pictures = await Promise.all(cell.images.map(() => drawImage(count)));
      const request = await matrixRequest(cell, id, pictures, stack.renderUrl);
      const answer = await ask(urls[format], { ...request, requestId: id });
      expect(answer).toMatchObject({ status: 200, isWhole: true });

      const legs = async (legId: string) =>
        (await stack.legs(legId)).map(({ profile, status }) => `${status} ${profile}`);
      const encodes = cell.api === 'chat' ? cell.images.map(() => '200 encode') : [];
      expect(await legs(`${id}-reserve`)).toEqual(['204 prefill']);
      await until('the prefill leg', async () => (await legs(`${id}-prefill`))[0]);
      expect(await legs(`${id}-prefill`)).toEqual(['200 prefill']);
      expect(await legs(id)).toEqual([...encodes, '200 decode']);

      const prefill = await ended(`${id}-prefill`, 'prefill');
      const decode = await ended(id, 'decode');
      expect(prefill).toMatchObject({ phase: 'prefill', maxTokens: 1, isStreaming: false });
      expect(prefill.kvTransferParams).toBeUndefined();
      const kv = { pod: 'prefill-0', blocks: Math.ceil(request.promptTokens / 16) };
      expect(decode.kv).toEqual({ source: 'external', ...kv });
      expect(decode.promptDigests).toEqual(prefill.promptDigests);

      const said = saidIn(answer, cell.isStreamed);
      expect(said.finishReasons).toEqual(['stop']);
      if (cell.api !== 'generate') {
        const report = expectedReport(request, kv);
        expect(said.text.slice(0, report.length)).toBe(report);
      }
      if (cell.isStreamed) expect(eventsOf(answer).at(-1)).toBe('[DONE]');
    },
  );

  it('leaves nobody in a room and computes no prompt twice', async () => {
    await expectEmptyRooms();
    for (const { counters } of await stack.states()) {
      expect(counters).toMatchObject({
        sim_local_prefill_total: 0,
        sim_role_violation_total: 0,
        sim_aborted_total: 0,
        sim_room_abandoned_total: 0,
      });
    }
  });

  it('refuses several sequences before any leg, naming the field', async () => {
    const requestId = nextId();
    const answer = await ask(urls.OpenAI, { path, requestId, body: chatOf('two', { n: 2 }) });
    expect(answer.status).toBe(400);
    expect(jsonOf<ApiError>(answer).error).toMatchObject({ param: 'n', step: 'prefill-decode' });
    expect(await stack.records(requestId)).toEqual([]);
  });
});

/** The rows of coordinator.md 4.7. */
describe('when a leg fails', () => {
  it('a decode error reaches the client, and prefill leaves its room', async () => {
    await stack.configure('decode', { fault: 'status=500' });
    const requestId = nextId();
    const body = chatOf(`Question ${count}`, { stream: true });
    const answer = await ask(urls.OpenAI, { path, requestId, body });
    expect(answer.status).toBe(500);
    expect(jsonOf<ApiError>(answer).error.message).toBe('injected status 500');
    const prefill = await ended(`${requestId}-prefill`, 'prefill');
    expect(prefill.outcome.status).toBe('aborted');
    await expectEmptyRooms();
  });

  it.each([
    { fault: 'status=503', status: 503, code: 'UPSTREAM_ERROR' },
    { fault: 'status=500', status: 502, code: 'UPSTREAM_ERROR' },
    { fault: 'reset', status: 503, code: 'UPSTREAM_ERROR' },
  ])('prefill with $fault is a $status, and decode is cut', async ({ fault, status, code }) => {
    await stack.configure('prefill', { fault });
    const requestId = nextId();
    const body = chatOf(`Question ${count}`, { stream: true });
    const answer = await ask(urls.OpenAI, { path, requestId, body });
    expect(answer.status).toBe(status);
    expect(jsonOf<ApiError>(answer).error).toMatchObject({ code, step: 'prefill-decode' });
    const [decode] = await stack.records(requestId, 'decode');
    // It may have been cut before it had reached a worker.
    if (decode) expect((await ended(requestId, 'decode')).outcome.status).toBe('aborted');
    await expectEmptyRooms();
  });

  it('prefill that breaks while decode streams: what came, then one error event', async () => {
    await stack.configure('decode', { itlMs: 30 });
    const begun = Promise.withResolvers<void>();
    proxy.tamper({
      cutAfterBytes: ({ requestId }) =>
        requestId.endsWith('-prefill') ? begun.promise.then(() => 0) : undefined,
    });
    const requestId = nextId();
    const body = chatOf(`Question ${count}`, { stream: true });
    const { statusCode, body: stream } = await open(urls.proxied, { path, requestId, body });
    expect(statusCode).toBe(200);
    const pieces: Buffer[] = [];
    for await (const piece of stream) {
      pieces.push(piece as Buffer);
      begun.resolve();
    }
    const events = eventsOf({ body: Buffer.concat(pieces) });
    expect(JSON.parse(events.at(-1) ?? '')).toMatchObject({
      error: { code: 'UPSTREAM_UNREACHABLE', step: 'prefill-decode' },
    });
    expect(events).not.toContain('[DONE]');
    expect((await ended(requestId, 'decode')).outcome.status).toBe('aborted');
  });

  it('prefill that breaks after the whole answer: the client never hears of it', async () => {
    const answered = Promise.withResolvers<void>();
    proxy.tamper({
      cutAfterBytes: ({ requestId }) =>
        requestId.endsWith('-prefill') ? answered.promise.then(() => 0) : undefined,
    });
    const requestId = nextId();
    const body = chatOf(`Question ${count}`, { stream: true });
    const answer = await ask(urls.proxied, { path, requestId, body });
    expect(answer).toMatchObject({ status: 200, isWhole: true });
    expect(chunksOf(answer).length).toBeGreaterThan(1);
    expect(eventsOf(answer).at(-1)).toBe('[DONE]');
    answered.resolve();
    expect(await stack.summary(requestId, 'proxied')).toMatchObject({ status: 200 });
  });

  it.each(['prefill', 'decode'] as const)(
    'a client that leaves while the %s worker is silent: both legs end',
    async (role) => {
      await stack.configure(role, { fault: 'hang' });
      const requestId = nextId();
      const client = new AbortController();
      const body = chatOf(`Question ${count}`, { stream: true });
      const answer = open(urls.OpenAI, { path, requestId, body, signal: client.signal });
      const failed = expect(answer).rejects.toThrow();
      const ids = { prefill: `${requestId}-prefill`, decode: requestId };
      for (const at of ['prefill', 'decode'] as const) {
        await until(`a ${at} leg`, async () => (await stack.records(ids[at], at))[0]);
      }
      client.abort();
      await failed;
      for (const at of ['prefill', 'decode'] as const) {
        expect((await ended(ids[at], at)).outcome.status).toBe('aborted');
      }
      expect(await stack.summary(requestId)).toMatchObject({ outcome: 'cancelled', status: 499 });
      await expectEmptyRooms();
    },
  );
});
