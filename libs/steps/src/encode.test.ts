import { rootOf } from '@llm-d/json-document';
import { ClientGoneError, type RequestContext, TokenIds } from '@llm-d/pipeline';
import { MemoryLog, requestContext } from '@llm-d/pipeline/testing';
import { type Answer, type RecordedCall } from '@llm-d/testing';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { encode } from './encode.ts';
import { mediaParts } from './media-parts.ts';
import { Rig } from './testing.ts';

let rig: Rig;
let log: MemoryLog;
beforeEach(async () => {
  rig = await Rig.open();
  log = new MemoryLog();
  rig.gateway.play(descriptorOf);
});
afterEach(() => rig.close());

/** Which image of the request a leg is about: its URL, or its hash where it came as tokens. */
function itemOf(call: RecordedCall): string {
  return (
    /"url":"data:,(\w+)"/.exec(call.body.toString())?.[1] ??
    /"image":\["(\w+)"\]/.exec(call.body.toString())?.[1] ??
    ''
  );
}
const descriptorOf = (call: RecordedCall): Answer => ({
  json: { ec_transfer_params: { [itemOf(call)]: { peer_port: 5601 } } },
});

/** A chat with images of these names, as render leaves it: two tokens for each image. */
function chat(
  names: readonly string[],
  options: { extra?: string; signal?: AbortSignal; api?: 'generate' } = {},
): RequestContext {
  const parts = names.map((name) => `{"type":"image_url","image_url":{"url":"data:,${name}"}}`);
  const body = `{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"hi"},${parts.join(',')}]}],"temperature":0.5${options.extra ?? ''}}`;
  const ctx = requestContext({
    body: names.length > 0 ? body : '{"messages":[]}',
    log,
    ...(options.signal ? { signal: options.signal } : {}),
  });
  ctx.tokenIds = TokenIds.read(
    rootOf(Buffer.from(JSON.stringify([1, ...names.flatMap(() => [32000, 32000]), 9]))),
  );
  ctx.media = mediaParts(ctx).map(({ part }, i) => ({
    modality: 'image',
    part,
    hash: names[i] ?? '',
    placeholder: { offset: 1 + 2 * i, length: 2 },
  }));
  return ctx;
}

const nixl = { ec_connector: 'ec-nixl' };
const collected = (ctx: RequestContext): string[] =>
  ctx.ecTransferParams.map(({ bytes }) => Buffer.from(bytes).toString());

describe('encode', () => {
  it.each([
    { format: 'openai', params: {}, path: '/v1/chat/completions' },
    { format: 'tokens-in', params: { use_openai_format: false }, path: '/inference/v1/generate' },
  ])(
    'sends one leg for each image as $format, in the name of one request',
    async ({ params, path }) => {
      const ctx = chat(['a', 'b', 'c']);
      expect(await rig.step(encode, { ...nixl, ...params })(ctx)).toBe('continue');
      expect(rig.gateway.calls.map(itemOf).toSorted()).toEqual(['a', 'b', 'c']);
      for (const call of rig.gateway.calls) {
        expect(call.path).toBe(path);
        expect(call.headers).toMatchObject({
          'epp-profile': ['encode'],
          'x-request-id': ['test-1'],
        });
      }
      expect(collected(ctx)).toEqual(
        ['a', 'b', 'c'].map((name) => `{"${name}":{"peer_port":5601}}`),
      );
      expect(log.lines).toEqual([]);
    },
  );

  it('keeps the order of the images, whatever the order of the answers', async () => {
    const gates: Record<string, PromiseWithResolvers<void>> = {
      a: Promise.withResolvers(),
      b: Promise.withResolvers(),
      c: Promise.withResolvers(),
    };
    rig.gateway.play((call) => ({
      ...descriptorOf(call),
      delay: gates[itemOf(call)]?.promise ?? 0,
    }));
    const ctx = chat(['a', 'b', 'c']);
    const running = rig.step(encode, nixl)(ctx);
    const calls = await Promise.all([0, 1, 2].map((i) => rig.gateway.received(i)));
    for (const name of ['c', 'b', 'a']) {
      gates[name]?.resolve();
      await calls.find((call) => itemOf(call) === name)?.ended;
      // The answer of one is complete before the next may go.
      await new Promise((resolve) => setImmediate(resolve));
      if (name !== 'a') expect(ctx.ecTransferParams).toEqual([]);
      if (name === 'a') await running;
    }
    expect(collected(ctx).map((text) => text.slice(2, 3))).toEqual(['a', 'b', 'c']);
  });

  it('writes a chat leg from the model, the part and what goes into its hash, and nothing else', async () => {
    const ctx = chat(['a'], {
      extra:
        ',"mm_processor_kwargs":{"x":1.0},"media_io_kwargs":{"y":[ ]},"tools":[],"max_completion_tokens":100,"min_tokens":5,"stream":true,"kv_transfer_params":{}',
    });
    await rig.step(encode)(ctx);
    expect(rig.gateway.calls[0]?.body.toString()).toBe(
      '{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:,a"}}]}],' +
        '"mm_processor_kwargs":{"x":1.0},"media_io_kwargs":{"y":[ ]},"max_tokens":1,"max_completion_tokens":1,"stream":false}',
    );
  });

  it('writes a tokens-in leg from the first token and the run of the image', async () => {
    await rig.step(encode, { use_openai_format: false })(chat(['a', 'b']));
    const legs = rig.bodies('encode');
    expect(legs.find((leg) => JSON.stringify(leg).includes('"b"'))).toEqual({
      model: 'm',
      token_ids: [1, 32000, 32000],
      features: {
        mm_hashes: { image: ['b'] },
        mm_placeholders: { image: [{ offset: 1, length: 2 }] },
        kwargs_data: { image: [null] },
      },
      sampling_params: { max_tokens: 1 },
      stream: false,
    });
  });

  it('encodes equal images once', async () => {
    const ctx = chat(['a', 'b', 'a', 'a']);
    await rig.step(encode, nixl)(ctx);
    expect(rig.gateway.calls.map(itemOf).toSorted()).toEqual(['a', 'b']);
    expect(collected(ctx)).toHaveLength(2);
    expect(log.lines).toEqual([]);
  });

  it('does nothing without images', async () => {
    const ctx = chat([]);
    expect(await rig.step(encode, nixl)(ctx)).toBe('continue');
    expect(rig.gateway.calls).toEqual([]);
    expect(ctx.ecTransferParams).toEqual([]);
  });

  it('leaves the images of a tokens-in request to prefill', async () => {
    const ctx = requestContext({ api: 'generate', body: '{}' });
    ctx.media = [{ modality: 'image', hash: 'h', placeholder: { offset: 0, length: 1 } }];
    expect(await rig.step(encode, nixl)(ctx)).toBe('continue');
    expect(rig.gateway.calls).toEqual([]);
  });

  it('leaves a request for several sequences to decode', async () => {
    const ctx = chat(['a'], { extra: ',"n":2' });
    await rig.step(encode, { ...nixl, kv_connector: 'kv-nixl' })(ctx);
    expect(rig.gateway.calls).toEqual([]);
    await rig.step(
      encode,
      { ...nixl, kv_connector: 'kv-nixl' },
      { kvMultiSequence: 'transfer' },
    )(ctx);
    expect(rig.gateway.calls).toHaveLength(1);
  });

  it.each(['"x"', '[]', 'null', '{}', '5'])(
    'takes ec_transfer_params %s for none and warns',
    async (params) => {
      rig.gateway.play({ text: `{"ec_transfer_params":${params}}` });
      const ctx = chat(['a', 'b']);
      expect(await rig.step(encode, nixl)(ctx)).toBe('continue');
      expect(ctx.ecTransferParams).toEqual([]);
      expect(log.lines).toEqual([
        {
          level: 'warn',
          message: 'encode answers without ec_transfer_params',
          fields: { missing: 2 },
        },
      ]);
    },
  );

  it('goes on with what some of the workers answered', async () => {
    rig.gateway.play((call) => (itemOf(call) === 'a' ? { json: {} } : descriptorOf(call)));
    const ctx = chat(['a', 'b']);
    await rig.step(encode, nixl)(ctx);
    expect(collected(ctx)).toEqual(['{"b":{"peer_port":5601}}']);
  });

  it('expects nothing of the answers with shared storage', async () => {
    const ctx = chat(['a']);
    await rig.step(encode)(ctx);
    expect(ctx.ecTransferParams).toEqual([]);
    rig.gateway.play({ json: {} });
    await rig.step(encode)(chat(['a']));
    expect(log.lines).toEqual([]);
  });

  it('keeps the header that most answers had', async () => {
    rig.gateway.play((call) => ({
      json: {},
      headers: { 'x-r': itemOf(call) === 'a' ? '1' : '2' },
    }));
    const ctx = chat(['a', 'b', 'c']);
    await rig.step(encode, {}, { forwardResponseHeaders: ['x-r'] })(ctx);
    expect(ctx.captured.get('x-r')).toBe('2');
  });
});

describe('the legs of encode', () => {
  it('run at most max_parallel at a time', async () => {
    const gate = Promise.withResolvers<void>();
    rig.gateway.play({ json: {}, delay: gate.promise });
    const running = rig.step(encode, { max_parallel: 2 })(chat(['a', 'b', 'c', 'd', 'e']));
    await Promise.all([rig.gateway.received(0), rig.gateway.received(1)]);
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(rig.gateway.calls).toHaveLength(2);
    gate.resolve();
    await running;
    expect(rig.gateway.calls).toHaveLength(5);
  });

  it('end together when one of them fails, which is the one that is named', async () => {
    const all = Promise.withResolvers<void>();
    rig.gateway.play((call) =>
      itemOf(call) === 'b'
        ? { status: 500, text: 'SECRET', delay: all.promise }
        : { beforeHeaders: 'hang' },
    );
    const ctx = chat(['a', 'b', 'c']);
    const running = rig.step(encode, nixl, { forwardResponseHeaders: ['x-r'] })(ctx);
    const calls = await Promise.all([0, 1, 2].map((i) => rig.gateway.received(i)));
    all.resolve();
    await expect(running).rejects.toMatchObject({
      code: 'UPSTREAM_ERROR',
      status: 502,
      message: 'encode[1]: upstream returned HTTP 500',
    });
    await Promise.all(calls.map(({ ended }) => ended));
    expect(
      calls
        .filter(({ aborted }) => aborted)
        .map(itemOf)
        .toSorted(),
    ).toEqual(['a', 'c']);
    expect(ctx.ecTransferParams).toEqual([]);
    expect(ctx.captured.size).toBe(0);
  });

  it('that stand in line are not sent after a failure', async () => {
    rig.gateway.play([
      { json: {} },
      { status: 429, headers: { 'retry-after': '2' } },
      { json: {} },
    ]);
    await expect(
      rig.step(encode, { max_parallel: 1 })(chat(['a', 'b', 'c'])),
    ).rejects.toMatchObject({
      status: 429,
      headers: ['retry-after', '2'],
    });
    expect(rig.gateway.calls).toHaveLength(2);
  });

  it.each([
    { name: 'a reset', answer: { beforeHeaders: 'reset' } as const, error: { fault: 'reset' } },
    { name: 'no JSON', answer: { text: 'data: {}' }, error: { code: 'UPSTREAM_ANSWER_INVALID' } },
    {
      name: 'too much',
      answer: { text: 'x'.repeat(1_048_577) },
      error: { fault: 'answer-too-large' },
    },
    { name: 'a list', answer: { json: [] }, error: { code: 'UPSTREAM_ANSWER_INVALID' } },
    {
      name: 'a redirect',
      answer: { status: 308, headers: { location: '/' } },
      error: { status: 502 },
    },
  ])('fail on $name', async ({ answer, error }) => {
    rig.gateway.play(answer);
    await expect(rig.step(encode)(chat(['a']))).rejects.toMatchObject(error);
    expect(rig.gateway.calls).toHaveLength(1);
  });

  it('fail on a worker that stalls', async () => {
    rig.gateway.play({ beforeHeaders: 'hang' });
    const slow = { gatewayOptions: { headersTimeoutMs: 200 } };
    await expect(rig.step(encode, {}, slow)(chat(['a']))).rejects.toMatchObject({
      fault: 'timeout',
    });
  });

  it('all end when the client leaves', async () => {
    const client = new AbortController();
    rig.gateway.play({ beforeHeaders: 'hang' });
    const running = rig.step(encode)(chat(['a', 'b', 'c', 'd'], { signal: client.signal }));
    const calls = await Promise.all([0, 1, 2, 3].map((i) => rig.gateway.received(i)));
    client.abort(new ClientGoneError());
    await expect(running).rejects.toMatchObject({ code: 'CLIENT_GONE' });
    await Promise.all(calls.map(({ ended }) => ended));
    expect(calls.every(({ aborted }) => aborted)).toBe(true);
  });
});

describe('the parameters of encode', () => {
  it('may be whole numbers in any spelling of YAML', () => {
    expect(rig.step(encode, { max_parallel: 4.0 })).toBeInstanceOf(Function);
  });

  it.each([
    {
      params: { max_parallel: 0 },
      message: 'encode: max_parallel: expected a positive integer, got 0',
    },
    {
      params: { max_parallel: '8' },
      message: 'encode: max_parallel: expected a positive integer, got "8"',
    },
    {
      params: { use_openai_format: 'yes' },
      message: 'encode: use_openai_format: expected true or false, got "yes"',
    },
    {
      params: { ec_connector: 'ec-x' },
      message: 'encode: ec_connector: expected one of ec-nixl, ec-shared-storage, got "ec-x"',
    },
    { params: { ec_connector: 5 }, message: 'encode: ec_connector: expected' },
    { params: { kv_connector: 'kv-x' }, message: 'encode: kv_connector: expected one of' },
  ])('end the start when they are $params', ({ params, message }) => {
    expect(() => rig.step(encode, params)).toThrow(message);
  });
});
