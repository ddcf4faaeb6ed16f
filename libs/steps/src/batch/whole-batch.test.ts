import { gzipSync } from 'node:zlib';
import { BadRequestError, ClientGoneError } from '@llm-d/pipeline';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Rig } from '../testing.ts';
import { PromptAnswer, HeldBytes } from './prompt-answer.ts';
import { completion, firstId, playBatch, type SentBody, startBatch } from './testing.ts';

let rig: Rig;
beforeEach(async () => {
  rig = await Rig.open();
});
afterEach(() => rig.close());

const prompts = [[10, 1], [20], [30, 2, 3]];

describe('a batch of prompts (C36)', () => {
  it('runs each prompt through all steps and answers in order with summed usage', async () => {
    const slow = Promise.withResolvers<void>();
    playBatch(rig, (id) => ({
      // The first prompt is answered last.
      ...(id === 10 ? { delay: slow.promise } : {}),
      json: completion(`cmpl-${id}`, [`text ${id}`], id),
    }));
    const { sink, done } = startBatch(rig, { prompt: prompts, seed: 7 });
    const others = [20, 30];
    while (!others.every((id) => rig.legs('decode').some((call) => firstId(call) === id))) {
      await rig.gateway.received(rig.gateway.calls.length);
    }
    slow.resolve();
    await done;
    expect(sink.ended).toBe('whole');
    expect(JSON.parse(sink.text)).toEqual({
      ...completion('cmpl-10', [], 0),
      choices: [10, 20, 30].map((id, index) => ({
        index,
        text: `text ${id}`,
        logprobs: null,
        finish_reason: 'stop',
      })),
      usage: {
        prompt_tokens: 60,
        total_tokens: 63,
        completion_tokens: 3,
        prompt_tokens_details: null,
      },
    });
    expect(sink.headers.join()).toContain(`content-length,${Buffer.byteLength(sink.text)}`);
  });

  it('has a hand-off, a leg and a whole client body for each prompt', async () => {
    playBatch(rig, (id) => ({ json: completion('x', ['y'], id) }));
    const { ctx, done } = startBatch(rig, { prompt: prompts, seed: 7, user: 'u' });
    await done;
    const sent = rig.bodies('decode') as unknown as SentBody[];
    const byPrompt = sent.toSorted((a, b) => (a.prompt[0] ?? 0) - (b.prompt[0] ?? 0));
    expect(byPrompt).toMatchObject(
      prompts.map((prompt) => ({
        ...{ model: 'm', prompt, seed: 7, user: 'u' },
        kv_transfer_params: { remote_request_id: `r-${prompt[0]}`, do_remote_prefill: true },
      })),
    );
    expect(rig.legs('prefill')).toHaveLength(3);
    const ids = rig.gateway.calls.map(({ headers }) => headers['x-request-id']?.[0]);
    expect(new Set(ids)).toEqual(new Set(['test-1']));
    const entries = ctx.timeline.map(({ name, kind, index }) => `${kind} ${name} ${index}`);
    expect(entries.toSorted()).toEqual(
      ['leg decode', 'leg prefill', 'step decode', 'step prefill'].flatMap((what) =>
        [0, 1, 2].map((index) => `${what} ${index}`),
      ),
    );
    expect(ctx.timeline.every(({ endMs }) => endMs !== undefined)).toBe(true);
  });

  it('gives every leg an id of its own where engines need that', async () => {
    playBatch(rig, (id) => ({ json: completion('x', ['y'], id) }));
    const { wire } = rig.dependencies();
    const overrides = { wire: { ...wire, legRequestId: 'unique' as const } };
    await startBatch(rig, { prompt: prompts }, { overrides }).done;
    const ids = rig.gateway.calls.map(({ headers }) => headers['x-request-id']?.[0]);
    expect(ids.toSorted()).toEqual(
      ['decode-0', 'decode-1', 'decode-2', 'prefill-0', 'prefill-1', 'prefill-2'].map(
        (suffix) => `test-1-${suffix}`,
      ),
    );
  });

  it('renders texts one by one', async () => {
    rig.renderService.play((call) => {
      const { prompt } = call.json() as { prompt: string };
      return { json: [{ token_ids: [prompt.length, 7] }] };
    });
    playBatch(rig, (id) => ({ json: completion('x', [`len ${id}`], 2) }));
    const { sink, ctx, done } = startBatch(
      rig,
      { prompt: ['a', 'bbb'] },
      { steps: [{ type: 'render' }, { type: 'prefill' }, { type: 'decode' }] },
    );
    await done;
    const rendered = rig.renderService.calls.map((call) => call.json());
    expect(rendered).toContainEqual({ model: 'm', prompt: 'bbb' });
    expect(ctx.promptTokens).toBe(4);
    expect(JSON.parse(sink.text)).toMatchObject({
      choices: [
        { index: 0, text: 'len 1' },
        { index: 1, text: 'len 3' },
      ],
    });
  });

  it('gives sample j of prompt i the index i * n + j', async () => {
    playBatch(rig, (id) => ({ json: completion('x', [`${id}a`, `${id}b`], id) }));
    const { sink, done } = startBatch(rig, { prompt: prompts, n: 2 });
    await done;
    const { choices, usage } = JSON.parse(sink.text) as {
      choices: { index: number; text: string }[];
      usage: object;
    };
    expect(choices.map(({ index, text }) => `${index} ${text}`)).toEqual([
      ...['0 10a', '1 10b', '2 20a', '3 20b', '4 30a', '5 30b'],
    ]);
    expect(usage).toMatchObject({ prompt_tokens: 60, completion_tokens: 6, total_tokens: 66 });
    // Several sequences cannot share one hand-off (design.md decision 17).
    expect(rig.legs('prefill')).toHaveLength(0);
  });

  it('keeps the bytes of each choice, and numbers that are none', async () => {
    const choice =
      '{ "text":"a\\u00e9", "index" : 0, "logprobs":{"token_logprobs":[-Infinity,NaN,1.50,9007199254740993]} }';
    playBatch(rig, () => ({
      headers: { 'content-type': 'application/json' },
      text: `{"id":"x","choices":[ ${choice} ],"usage":{"prompt_tokens":1,"prompt_tokens_details":{"cached_tokens":2}},"system_fingerprint":"f"}`,
    }));
    const { sink, done } = startBatch(rig, { prompt: [[10], [20]] });
    await done;
    const second = choice.replace('"index" : 0', '"index" : 1');
    expect(sink.text).toBe(
      `{"id":"x","choices":[${choice},${second}],"usage":{"prompt_tokens":2,"prompt_tokens_details":{"cached_tokens":4}},"system_fingerprint":"f"}`,
    );
  });

  it('has no usage when one of the answers has none', async () => {
    playBatch(rig, (id) => ({
      json: { ...completion('x', ['y'], id), ...(id === 20 ? { usage: undefined } : {}) },
    }));
    const { sink, done } = startBatch(rig, { prompt: prompts });
    await done;
    expect(JSON.parse(sink.text)).not.toHaveProperty('usage');
  });

  it('asks for plain answers, and unpacks one that comes packed all the same', async () => {
    playBatch(rig, (id) => ({
      headers: { 'content-type': 'application/json', 'content-encoding': 'gzip' },
      bytes: gzipSync(JSON.stringify(completion('x', [`${id}`], id))),
    }));
    const { sink, done } = startBatch(
      rig,
      { prompt: [[10], [20]] },
      { request: { headers: ['Accept-Encoding', 'gzip', 'X-Other', 'kept'] } },
    );
    await done;
    for (const { headers } of rig.gateway.calls) {
      expect(headers['accept-encoding']).toBeUndefined();
      expect(headers['x-other']).toEqual(['kept']);
    }
    expect(JSON.parse(sink.text)).toMatchObject({ choices: [{ text: '10' }, { text: '20' }] });
    expect(sink.headers.join()).not.toContain('content-encoding');
  });

  it('never runs more prompts at a time than allowed', async () => {
    let [running, most] = [0, 0];
    playBatch(rig, (id, call) => {
      most = Math.max(most, ++running);
      void call.ended.then(() => running--);
      return { delay: 1, json: completion('x', [`${id}`], id) };
    });
    const many = Array.from({ length: 64 }, (_, i) => [i + 1]);
    const { sink, done } = startBatch(rig, { prompt: many }, { parallel: 5 });
    await done;
    expect(most).toBeLessThanOrEqual(5);
    const { choices } = JSON.parse(sink.text) as { choices: { index: number; text: string }[] };
    expect(choices.map(({ index, text }) => [index, text])).toEqual(
      many.map(([id], i) => [i, String(id)]),
    );
  });

  it('asks conditional-decode for each prompt by itself', async () => {
    playBatch(rig, (id, call) =>
      call.headers['prefer'] && id !== 20
        ? { status: 412 }
        : { json: completion('x', [call.headers['prefer'] ? 'cached' : 'computed'], id) },
    );
    const steps = ['conditional-decode', 'prefill', 'decode'].map((type) => ({ type }));
    const { sink, done } = startBatch(rig, { prompt: prompts }, { steps });
    await done;
    expect(rig.legs('prefill').map(firstId).toSorted()).toEqual([10, 30]);
    expect(JSON.parse(sink.text)).toMatchObject({
      choices: [{ text: 'computed' }, { text: 'cached' }, { text: 'computed' }],
    });
  });
});

describe('a list of one prompt', () => {
  it.each([false, true])('is served byte for byte (stream: %s)', async (isStreaming) => {
    const text = isStreaming
      ? 'data: { "id":"x","choices":[{"index":0}]}\n\ndata: [DONE]\n\n'
      : '{ "id":"x","choices":[{"index":0,"logprobs":NaN}]}';
    playBatch(rig, () => ({ headers: { 'content-type': 'a/b' }, text }));
    const { sink, done } = startBatch(rig, { prompt: [[10, 1]], stream: isStreaming });
    await done;
    expect(sink.text).toBe(text);
    expect(rig.bodies('decode')).toMatchObject([{ prompt: [10, 1] }]);
    const [call] = rig.legs('decode');
    expect(call?.body.toString()).toContain('"prompt":[10,1]');
  });
});

describe('a batch that fails', () => {
  const isDone = (id: number): object => completion('x', ['y'], id);

  it('calls nobody when a prompt is at fault', async () => {
    const { done } = startBatch(rig, { prompt: [[10], [20, -1]] });
    await expect(done).rejects.toThrow('prompt[1][1] must be a non-negative integer');
    await expect(done).rejects.toBeInstanceOf(BadRequestError);
    expect(rig.gateway.calls).toHaveLength(0);
  });

  it('says which prompt is too long', async () => {
    playBatch(rig, (id) => ({ json: isDone(id) }));
    const { done } = startBatch(
      rig,
      { prompt: [[10], [20, 1, 2]] },
      {
        parallel: 1,
        steps: [{ type: 'render', params: { max_total_tokens: 2 } }, { type: 'decode' }],
      },
    );
    await expect(done).rejects.toMatchObject({
      message: 'prompt[1]: the prompt has 3 tokens, the limit is 2',
      code: 'PROMPT_TOO_LONG',
      param: 'prompt[1]',
      step: 'render',
      status: 400,
    });
  });

  it("hands on the worker's own refusal of one prompt, and ends the others", async () => {
    const refusal = '{"object":"error", "message":"too hot"}';
    playBatch(rig, (id) =>
      id === 20
        ? {
            // When all legs are there.
            delay: rig.gateway.received(5),
            status: 422,
            headers: { 'content-type': 'application/json' },
            text: refusal,
          }
        : { beforeHeaders: 'hang' },
    );
    const { sink, done } = startBatch(rig, { prompt: prompts });
    await expect(done).rejects.toMatchObject({ code: 'RESPONSE_STARTED', status: 422 });
    expect(sink).toMatchObject({ status: 422, text: refusal, ended: 'whole' });
    await Promise.all(rig.gateway.calls.map((call) => call.ended));
    const held = rig.legs('decode').filter((call) => firstId(call) !== 20);
    expect(held.every(({ aborted }) => aborted)).toBe(true);
  });

  it.each([
    {
      name: 'prefill refuses',
      phase: 'prefill',
      answer: { status: 503 },
      status: 503,
      code: 'GATEWAY_PICKER_DOWN',
    },
    {
      name: 'decode is reset',
      phase: 'decode',
      answer: { beforeHeaders: 'reset' },
      status: 502,
      code: 'UPSTREAM_UNREACHABLE',
    },
    {
      name: 'an answer is cut',
      phase: 'decode',
      answer: { headers: { 'content-length': '500' }, chunks: ['{"id"', { end: 'close' }] },
      status: 502,
      code: 'UPSTREAM_UNREACHABLE',
    },
    {
      name: 'an answer is no JSON',
      phase: 'decode',
      answer: { text: '<html>' },
      status: 502,
      code: 'UPSTREAM_ANSWER_INVALID',
    },
    {
      name: 'an answer has no choices',
      phase: 'decode',
      answer: { json: {} },
      status: 502,
      code: 'UPSTREAM_ANSWER_INVALID',
    },
    {
      name: 'an answer is empty',
      phase: 'decode',
      answer: { status: 204 },
      status: 502,
      code: 'UPSTREAM_ANSWER_INVALID',
    },
  ] as const)('answers with a status when $name', async ({ phase, answer, status, code }) => {
    rig.gateway.play((call) => {
      const own = call.headers['epp-profile']?.[0];
      if (own === phase && firstId(call) === 20) return answer;
      return own === 'prefill' ? { json: {} } : { json: isDone(firstId(call)) };
    });
    const { sink, done } = startBatch(rig, { prompt: prompts });
    await expect(done).rejects.toMatchObject({ status, code, step: phase });
    expect(sink.isStarted).toBe(false);
  });

  it('starts no further prompt after the first failure', async () => {
    playBatch(rig, (id) => (id === 20 ? { status: 500 } : { json: isDone(id) }));
    const { done } = startBatch(rig, { prompt: prompts }, { parallel: 1 });
    await expect(done).rejects.toMatchObject({ status: 502 });
    expect(rig.legs('prefill').map(firstId)).toEqual([10, 20]);
  });

  it('ends all legs when the client leaves (C04)', async () => {
    playBatch(rig, () => ({ beforeHeaders: 'hang' }));
    const { sink, client, done } = startBatch(rig, { prompt: prompts });
    await rig.gateway.received(5);
    client.abort(new ClientGoneError());
    await expect(done).rejects.toBeInstanceOf(ClientGoneError);
    await Promise.all(rig.gateway.calls.map((call) => call.ended));
    expect(rig.legs('decode').map(({ aborted }) => aborted)).toEqual([true, true, true]);
    expect(sink.isStarted).toBe(false);
  });
});

describe('what a batch holds', () => {
  it('ends the batch beyond its limit', () => {
    const errors: Error[] = [];
    const held = new HeldBytes((error) => errors.push(error), 10);
    const [first, second] = [new PromptAnswer(held), new PromptAnswer(held)];
    first.write(Buffer.alloc(6));
    expect(errors).toEqual([]);
    second.write(Buffer.alloc(6));
    expect(errors).toMatchObject([
      { message: 'decode: the answers of a batch exceed 10 bytes', status: 502 },
    ]);
  });
});
