import { gzipSync } from 'node:zlib';
import { type Api } from '@llm-d/gateway';
import { rootOf } from '@llm-d/json-document';
import { ClientGoneError, type RequestContext, TokenIds } from '@llm-d/pipeline';
import { requestContext } from '@llm-d/pipeline/testing';
import { type Answer } from '@llm-d/testing';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { prefill } from './prefill.ts';
import { answerFile, Rig } from './testing.ts';

let rig: Rig;
beforeEach(async () => {
  rig = await Rig.open();
  rig.gateway.play(answerFile('prefill.kv-nixl.json'));
});
afterEach(() => rig.close());

const json = (text: string) => rootOf(Buffer.from(text));
function context(
  api: Api,
  body: string,
  options: { ids?: string; signal?: AbortSignal; headers?: string[] } = {},
): RequestContext {
  const { ids, ...rest } = options;
  const ctx = requestContext({ api, body, ...rest });
  if (ids !== undefined) ctx.tokenIds = TokenIds.read(json(ids));
  return ctx;
}

/** Runs the step and gives the bytes that the gateway got. */
async function sent(ctx: RequestContext, params = {}, overrides = {}): Promise<string> {
  expect(await rig.step(prefill, params, overrides)(ctx)).toBe('continue');
  return rig.gateway.calls.at(-1)?.body.toString() ?? '';
}

const flags = '"kv_transfer_params":{"do_remote_decode":true,"do_remote_prefill":false}';

describe('a prefill leg', () => {
  it('of chat is the client’s body with the cap, in place where the client had set it', async () => {
    const body =
      '{"model":"m","stream":true,"stream_options":{"include_usage":true},"max_tokens":200,"min_tokens":50,"messages":[{"content":"hi"}],"tools":[{"z":1,"a":1.0}],"seed":9007199254740993}';
    expect(await sent(context('chat', body, { ids: '[1,2]' }))).toBe(
      `{"model":"m","stream":false,"max_tokens":1,"messages":[{"content":"hi"}],"tools":[{"z":1,"a":1.0}],"seed":9007199254740993,"max_completion_tokens":1,${flags}}`,
    );
  });

  it('of completions carries the rendered ids and the cap alone', async () => {
    const body =
      '{"model":"m","prompt":"x","max_tokens":9,"min_tokens":3,"stream":true,"temperature":1}';
    expect(await sent(context('completions', body, { ids: '[1, 2345]' }))).toBe(
      `{"request_id":"test-1","model":"m","prompt":[1, 2345],${flags},"max_tokens":1,"stream":false}`,
    );
    expect(await sent(context('completions', body))).toContain('"prompt":"x"');
  });

  it('of generate carries ids, features and the cap', async () => {
    const ctx = context(
      'generate',
      '{"model":"m","token_ids":[1,2],"sampling_params":{"min_tokens":3}}',
      { ids: '[1,2]' },
    );
    ctx.media = [{ modality: 'image', hash: 'h', placeholder: { offset: 0, length: 1 } }];
    expect(await sent(ctx)).toBe(
      `{"request_id":"test-1","model":"m","token_ids":[1,2],${flags},"features":{"mm_hashes":{"image":["h"]},"mm_placeholders":{"image":[{"offset":0,"length":1}]},"kwargs_data":{"image":[null]}},"sampling_params":{"max_tokens":1},"stream":false}`,
    );
  });

  it.each([
    { api: 'chat', usesOpenAi: true, path: '/v1/chat/completions' },
    { api: 'chat', usesOpenAi: false, path: '/inference/v1/generate' },
    { api: 'completions', usesOpenAi: true, path: '/v1/completions' },
    { api: 'completions', usesOpenAi: false, path: '/v1/completions' },
    { api: 'generate', usesOpenAi: true, path: '/inference/v1/generate' },
    { api: 'generate', usesOpenAi: false, path: '/inference/v1/generate' },
  ] as const)(
    'of $api goes to $path when the OpenAI format is $usesOpenAi',
    async ({ api, usesOpenAi, path }) => {
      await sent(context(api, '{"prompt":"x"}', { ids: '[1]' }), { use_openai_format: usesOpenAi });
      expect(rig.gateway.calls[0]?.path).toBe(path);
      expect(rig.gateway.calls[0]?.headers).toMatchObject({
        'epp-profile': ['prefill'],
        'x-request-id': ['test-1'],
      });
    },
  );

  it('carries the descriptors of all images', async () => {
    const ctx = context('chat', '{"messages":[]}');
    ctx.ecTransferParams = [json('{"h0":{"n":9007199254740993}}'), json('{"h1":{}}')];
    expect(await sent(ctx, { ec_connector: 'ec-nixl' })).toMatch(
      /"ec_transfer_params":\{"h0":\{"n":9007199254740993\},"h1":\{\}\}\}$/,
    );
  });

  it.each(['chat', 'completions', 'generate'] as const)(
    'of %s carries no descriptors with shared storage',
    async (api) => {
      const ctx = context(api, '{"prompt":"x"}', { ids: '[1]' });
      ctx.ecTransferParams = [json('{"h0":{}}')];
      expect(await sent(ctx, { ec_connector: 'ec-shared-storage' })).not.toContain(
        'ec_transfer_params',
      );
    },
  );

  it('is not sent when two answers describe one image differently', async () => {
    const ctx = context('chat', '{"messages":[]}');
    ctx.ecTransferParams = [json('{"h":{"a":1}}'), json('{"h":{"a":2}}')];
    await expect(rig.step(prefill, { ec_connector: 'ec-nixl' })(ctx)).rejects.toMatchObject({
      code: 'UPSTREAM_ANSWER_INVALID',
      status: 502,
      message: 'prefill: two encode answers describe the same media item differently',
    });
    expect(rig.gateway.calls).toEqual([]);
  });

  it('leaves the body of the request alone', async () => {
    const ctx = context('chat', '{"messages":[],"stream":true,"min_tokens":3}');
    const before = ctx.body;
    await sent(ctx);
    expect(ctx.body).toBe(before);
    expect(ctx.body.toString()).toBe('{"messages":[],"stream":true,"min_tokens":3}');
  });

  it('of the seed era has the params below extra_args, and the tokens object on chat', async () => {
    const wire = {
      phaseHeader: 'EPP-Profile',
      generateTransferParams: 'extra-args',
      hasChatTokens: true,
      legRequestId: 'shared',
      pinHeader: 'x-prefill-pin-host-port',
    };
    expect(await sent(context('generate', '{}', { ids: '[1]' }), {}, { wire })).toBe(
      `{"request_id":"test-1","model":"","token_ids":[1],"sampling_params":{"max_tokens":1,"extra_args":{${flags}}},"stream":false}`,
    );
    expect(await sent(context('chat', '{"messages":[]}', { ids: '[1]' }), {}, { wire })).toContain(
      '"tokens":{"token_ids":[1]}',
    );
  });
});

describe('several sequences', () => {
  const two = '{"messages":[],"n":2,"best_of":3}';

  it('with kv-nixl are left to decode', async () => {
    const ctx = context('chat', two);
    expect(await rig.step(prefill, { kv_connector: 'kv-nixl' })(ctx)).toBe('continue');
    expect(rig.gateway.calls).toEqual([]);
    expect(ctx.renewKv).toBeUndefined();
  });

  it.each([
    {
      name: 'where they may be transferred',
      params: { kv_connector: 'kv-nixl' },
      overrides: { kvMultiSequence: 'transfer' },
    },
    { name: 'with shared storage', params: {}, overrides: {} },
  ])('are one for prefill $name', async ({ params, overrides }) => {
    const body = JSON.parse(await sent(context('chat', two), params, overrides)) as object;
    expect(body).toMatchObject({ n: 1 });
    expect(body).not.toHaveProperty('best_of');
  });
});

describe('the answer of prefill', () => {
  it('gives the hand-off as it came', async () => {
    rig.gateway.play({ text: '{"kv_transfer_params": {"n":9007199254740993, "a":[ ]},"id":1}' });
    const ctx = context('chat', '{}');
    const before = performance.now();
    await sent(ctx);
    expect(Buffer.from(ctx.kvTransferParams?.bytes ?? '').toString()).toBe(
      '{"n":9007199254740993, "a":[ ]}',
    );
    expect(ctx.kvReceivedAt).toBeGreaterThanOrEqual(before);
  });

  it.each([
    '{"kv_transfer_params":"x"}',
    '{"kv_transfer_params":[]}',
    '{"kv_transfer_params":null}',
    '{"kv_transfer_params":{}}',
    '{}',
  ])('gives none for %s, also where there was one before', async (text) => {
    rig.gateway.play({ text });
    const ctx = context('chat', '{}');
    ctx.kvTransferParams = json('{"old":1}');
    await sent(ctx);
    expect(ctx.kvTransferParams).toBeUndefined();
  });

  it('may be compressed though nobody asked for it', async () => {
    rig.gateway.play({
      headers: { 'content-encoding': 'gzip' },
      bytes: gzipSync('{"kv_transfer_params":{"a":1}}'),
    });
    const ctx = context('chat', '{}', { headers: ['accept-encoding', 'gzip'] });
    await sent(ctx);
    expect(rig.gateway.calls[0]?.headers['accept-encoding']).toBeUndefined();
    expect(ctx.kvTransferParams).toBeDefined();
  });

  it('may give headers for decode', async () => {
    rig.gateway.play({ headers: { 'x-r': '1' }, json: {} });
    const ctx = context('chat', '{}');
    await sent(ctx, {}, { forwardResponseHeaders: ['x-r'] });
    expect(ctx.captured.get('x-r')).toBe('1');
  });

  it('can be fetched anew', async () => {
    const ctx = context('chat', '{}');
    await sent(ctx);
    rig.gateway.play({ json: { kv_transfer_params: { fresh: 1 } } });
    await ctx.renewKv?.(ctx);
    expect(rig.gateway.calls).toHaveLength(2);
    expect(rig.gateway.calls[1]?.body.equals(rig.gateway.calls[0]?.body ?? Buffer.alloc(0))).toBe(
      true,
    );
    expect(ctx.kvTransferParams?.get('fresh')).toBeDefined();
  });

  it.each<{ name: string; answer: Answer; error: object }>([
    {
      name: 'a 400',
      answer: { status: 400, text: 'SECRET' },
      error: { status: 400, message: 'prefill: upstream returned HTTP 400' },
    },
    {
      name: 'a 503',
      answer: { status: 503, headers: { 'retry-after': '9' } },
      error: { status: 503, headers: ['retry-after', '9'] },
    },
    { name: 'a 500', answer: { status: 500 }, error: { status: 502 } },
    { name: 'a 201', answer: { status: 201, json: {} }, error: { status: 502 } },
    { name: 'a 307', answer: { status: 307, headers: { location: '/x' } }, error: { status: 502 } },
    { name: 'a reset', answer: { beforeHeaders: 'reset' }, error: { fault: 'reset' } },
    {
      name: 'a close after the request was read',
      answer: { beforeHeaders: 'close' },
      error: { fault: 'reset' },
    },
    {
      name: 'a cut body',
      answer: { headers: { 'content-length': '99' }, chunks: ['{', { end: 'close' }] },
      error: { fault: 'reset' },
    },
    { name: 'silence', answer: { beforeHeaders: 'hang' }, error: { fault: 'timeout' } },
    { name: 'a list', answer: { json: [] }, error: { code: 'UPSTREAM_ANSWER_INVALID' } },
    {
      name: 'events',
      answer: { text: 'data: {}\n\n' },
      error: { code: 'UPSTREAM_ANSWER_INVALID', status: 502 },
    },
    {
      name: 'bare infinities',
      answer: { text: '{"kv_transfer_params":{"a":1},"logprobs":[-Infinity]}' },
      error: { status: 502 },
    },
    {
      name: 'too much',
      answer: { chunks: Array.from({ length: 20 }, () => 'x'.repeat(65_536)) },
      error: { fault: 'answer-too-large' },
    },
  ])('fails the step when it is $name, and nothing is sent twice', async ({ answer, error }) => {
    rig.gateway.play(answer);
    const ctx = context('chat', '{}');
    const overrides = {
      gatewayOptions: { headersTimeoutMs: answer.beforeHeaders === 'hang' ? 200 : 0 },
    };
    await expect(rig.step(prefill, {}, overrides)(ctx)).rejects.toMatchObject(error);
    expect(rig.gateway.calls).toHaveLength(1);
    expect(ctx.kvTransferParams).toBeUndefined();
  });

  // ai-dynamo/dynamo#13691: abandoned prefills keep the next request waiting.
  it('is not waited for when the client has left', async () => {
    const client = new AbortController();
    rig.gateway.play({ beforeHeaders: 'hang' });
    const running = rig.step(prefill)(context('chat', '{}', { signal: client.signal }));
    const call = await rig.gateway.received(0);
    client.abort(new ClientGoneError());
    await expect(running).rejects.toMatchObject({ code: 'CLIENT_GONE' });
    await call.ended;
    expect(call.aborted).toBe(true);
  });
});

describe('the parameters of prefill', () => {
  it.each([
    {
      params: { kv_connector: 'kv-x' },
      message:
        'prefill: kv_connector: expected one of kv-nixl, kv-shared-storage, kv-sglang, kv-none, got "kv-x"',
    },
    {
      params: { ec_connector: 'ec-x' },
      message: 'prefill: ec_connector: expected one of ec-nixl, ec-shared-storage, got "ec-x"',
    },
    {
      params: { use_openai_format: 1 },
      message: 'prefill: use_openai_format: expected true or false, got 1',
    },
  ])('end the start when they are $params', ({ params, message }) => {
    expect(() => rig.step(prefill, params)).toThrow(message);
  });
});
