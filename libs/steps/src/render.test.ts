import { gzipSync } from 'node:zlib';
import { type Api } from '@llm-d/gateway';
import { ClientGoneError, type MediaEntry, type RequestContext } from '@llm-d/pipeline';
import { requestContext } from '@llm-d/pipeline/testing';
import { type Answer } from '@llm-d/testing';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { mediaParts } from './media-parts.ts';
import { render } from './render.ts';
import { answerFile, Rig, testdata } from './testing.ts';

let rig: Rig;
beforeEach(async () => {
  rig = await Rig.open();
});
afterEach(() => rig.close());

/** A context as replace-media-urls leaves it. */
function chat(file: string, options: Parameters<typeof requestContext>[0] = {}): RequestContext {
  const ctx = requestContext({ body: testdata(`requests/${file}.json`), ...options });
  ctx.media = mediaParts(ctx).map(({ part }) => ({ modality: 'image', part }));
  return ctx;
}

const run = (ctx: RequestContext, params = {}, overrides = {}): Promise<unknown> =>
  rig.step(render, params, overrides)(ctx);
const completions = (prompt: string): RequestContext =>
  requestContext({ api: 'completions', body: `{"model":"m","prompt":${prompt},"seed":1.0}` });
const asPlain = ({ hash, placeholder, kwargsData }: MediaEntry) => ({
  ...{ hash, placeholder, kwargs: kwargsData?.toString() },
});

describe('render of a chat', () => {
  it('sends the whole body and fills ids, hashes, placeholders and tensors', async () => {
    rig.renderService.play(answerFile('render.chat.two-images.json'));
    const ctx = chat('chat.two-images');
    expect(await run(ctx)).toBe('continue');
    const [call] = rig.renderService.calls;
    expect(call).toMatchObject({ method: 'POST', path: '/v1/chat/completions/render' });
    expect(call?.headers).toMatchObject({
      'content-type': ['application/json'],
      'x-request-id': ['test-1'],
    });
    expect(call?.headers['epp-profile']).toBeUndefined();
    expect(call?.body.toString()).toBe(testdata('requests/chat.two-images.json'));
    expect(ctx.tokenIds?.length).toBe(8);
    expect(ctx.media.map(asPlain)).toEqual([
      { hash: '5f1d', placeholder: { offset: 1, length: 3 }, kwargs: '"gqFhMQ=="' },
      { hash: '9c2e', placeholder: { offset: 5, length: 2 }, kwargs: undefined },
    ]);
    expect(ctx.media.every(({ part }) => part)).toBe(true);
  });

  it('calls also without media', async () => {
    rig.renderService.play({
      json: {
        token_ids: [1, 2, 3],
        features: {
          mm_hashes: { image: [] },
          mm_placeholders: { image: [] },
          kwargs_data: { image: [] },
        },
      },
    });
    const ctx = chat('chat.text');
    await run(ctx);
    expect(ctx.tokenIds?.length).toBe(3);
    expect(ctx.media).toEqual([]);
  });

  it.each([
    '{"token_ids":[1]}',
    '{"token_ids":[1],"features":null}',
    '{"token_ids":[1],"features":{}}',
    '{"token_ids":[],"model":"other","kv_transfer_params":{}}',
  ])('takes %s for a text', async (text) => {
    rig.renderService.play({ text });
    await run(chat('chat.text'));
  });

  it('may leave the tensors out altogether', async () => {
    rig.renderService.play({
      json: {
        token_ids: [1, 2, 3, 4],
        features: {
          mm_hashes: { image: ['h'] },
          mm_placeholders: { image: [{ offset: 1, length: 2 }] },
          kwargs_data: null,
        },
      },
    });
    const ctx = chat('chat.one-image');
    await run(ctx);
    expect(ctx.media.map(asPlain)).toEqual([
      { hash: 'h', placeholder: { offset: 1, length: 2 }, kwargs: undefined },
    ]);
  });

  const features = (hashes: unknown, placeholders: unknown, kwargs: unknown = ['x']) => ({
    features: {
      mm_hashes: { image: hashes },
      mm_placeholders: { image: placeholders },
      kwargs_data: { image: kwargs },
    },
  });
  const at = [{ offset: 1, length: 2 }];
  it.each([
    { name: 'no token ids', answer: {} },
    { name: 'null for token ids', answer: { token_ids: null } },
    { name: 'a negative token id', answer: { token_ids: [1, -1], ...features(['h'], at) } },
    { name: 'no features', answer: { token_ids: [1, 2, 3] } },
    { name: 'too many hashes', answer: { token_ids: [1, 2, 3], ...features(['h', 'i'], at) } },
    { name: 'too few placeholders', answer: { token_ids: [1, 2, 3], ...features(['h'], []) } },
    { name: 'too few tensors', answer: { token_ids: [1, 2, 3], ...features(['h'], at, []) } },
    { name: 'a hash that is no text', answer: { token_ids: [1, 2, 3], ...features([5], at) } },
    {
      name: 'a placeholder that is none',
      answer: { token_ids: [1, 2, 3], ...features(['h'], ['x']) },
    },
    {
      name: 'a placeholder outside the prompt',
      answer: { token_ids: [1, 2, 3], ...features(['h'], [{ offset: 2, length: 2 }]) },
    },
    {
      name: 'a negative offset',
      answer: { token_ids: [1, 2, 3], ...features(['h'], [{ offset: -1, length: 2 }]) },
    },
    {
      name: 'a huge length',
      answer: { token_ids: [1, 2, 3], ...features(['h'], [{ offset: 0, length: 1e15 }]) },
    },
    { name: 'a list', answer: [] },
  ])('fails when the service answers $name', async ({ answer }) => {
    rig.renderService.play({ json: answer });
    await expect(run(chat('chat.one-image'))).rejects.toMatchObject({
      code: 'UPSTREAM_ANSWER_INVALID',
      status: 502,
      message: expect.stringMatching(/^render: /),
    });
  });

  it('fails when the service describes images that the request does not have', async () => {
    rig.renderService.play(answerFile('render.chat.one-image.json'));
    await expect(run(chat('chat.text'))).rejects.toMatchObject({ status: 502 });
  });
});

describe('the tensors of render', () => {
  const asked = async (params: object, hasTokensInLegs: boolean): Promise<string> => {
    rig.renderService.play(answerFile('render.chat.text.json'));
    const ctx = requestContext({ body: '{"messages":[],"seed":1.0}' });
    await run(ctx, params, { hasTokensInLegs });
    expect(ctx.body.toString()).toBe('{"messages":[],"seed":1.0}');
    return rig.renderService.calls.at(-1)?.body.toString() ?? '';
  };

  it.each([
    { params: {}, hasTokensInLegs: false },
    { params: { mm_payload: 'full' }, hasTokensInLegs: false },
    { params: { mm_payload: 'auto' }, hasTokensInLegs: true },
  ])('come with $params, tokens-in legs: $hasTokensInLegs', async ({ params, hasTokensInLegs }) => {
    expect(await asked(params, hasTokensInLegs)).toBe('{"messages":[],"seed":1.0}');
  });

  it('are not asked for where no leg carries them and the configuration allows it', async () => {
    expect(await asked({ mm_payload: 'auto' }, false)).toBe(
      '{"messages":[],"seed":1.0,"mm_payload":"none","return_mm_kwargs":false}',
    );
  });

  it('are asked for in words that are known', () => {
    expect(() => rig.step(render, { mm_payload: 'some' })).toThrow('render: mm_payload: expected');
  });
});

describe('render of completions', () => {
  it('has a text rendered; the body is left to the legs', async () => {
    rig.renderService.play(answerFile('render.completions.text.json'));
    const ctx = completions('"The capital"');
    await run(ctx);
    expect(rig.renderService.calls[0]?.path).toBe('/v1/completions/render');
    expect(rig.renderService.calls[0]?.body.toString()).toBe(
      '{"model":"m","prompt":"The capital","seed":1.0}',
    );
    expect(ctx.tokenIds?.raw.toString()).toBe('[785, 6722, 315, 9625, 374]');
  });

  it.each(['[1,2345,6789]', '[]', '[ 1.0 ]'])('reads the ids %s itself', async (prompt) => {
    const ctx = completions(prompt);
    await run(ctx);
    expect(rig.renderService.calls).toEqual([]);
    expect(ctx.tokenIds?.raw.toString()).toBe(prompt);
    expect(ctx.body.get('prompt')?.byteLength).toBe(prompt.length);
  });

  it.each(['["a","b"]', '[[1,2],[3]]', '[{}]', '[true]', '[null]', 'null', '5', '{}', 'true'])(
    'refuses the prompt %s',
    async (prompt) => {
      await expect(run(completions(prompt))).rejects.toMatchObject({
        status: 400,
        param: 'prompt',
      });
      expect(rig.renderService.calls).toEqual([]);
    },
  );

  it('refuses a request without a prompt', async () => {
    const ctx = requestContext({ api: 'completions', body: '{}' });
    await expect(run(ctx)).rejects.toMatchObject({ status: 400, param: 'prompt' });
  });

  it.each(['[1,-1]', '[1,1.5]', '[1,"a"]', '[1,1e19]', '[1,null]'])(
    'names the bad id in %s',
    async (prompt) => {
      await expect(run(completions(prompt))).rejects.toMatchObject({
        status: 400,
        param: 'prompt[1]',
      });
    },
  );

  it.each(['[]', '{}', '[{"token_ids":[1]},{"token_ids":[2]}]', '[1]', '[{}]'])(
    'fails when the service answers %s',
    async (text) => {
      rig.renderService.play({ text });
      await expect(run(completions('"x"'))).rejects.toMatchObject({
        status: 502,
        code: 'UPSTREAM_ANSWER_INVALID',
      });
    },
  );
});

describe('render of generate', () => {
  it('reads and checks the request without a call', async () => {
    const ctx = requestContext({
      api: 'generate',
      body: testdata('requests/generate.two-images.json'),
    });
    expect(await run(ctx)).toBe('continue');
    expect(ctx.tokenIds?.length).toBe(8);
    expect(ctx.media).toHaveLength(2);
    expect(rig.renderService.calls).toEqual([]);
  });
});

describe('the limits of render', () => {
  it.each([
    {
      name: 'a chat',
      ctx: () => chat('chat.text'),
      answer: { token_ids: Array(10).fill(1) },
      calls: 1,
    },
    {
      name: 'a text',
      ctx: () => completions('"x"'),
      answer: [{ token_ids: Array(10).fill(1) }],
      calls: 1,
    },
    { name: 'ids', ctx: () => completions('[0,1,2,3,4,5,6,7,8,-9]'), answer: {}, calls: 0 },
    {
      name: 'tokens-in',
      ctx: () =>
        requestContext({ api: 'generate' as Api, body: '{"token_ids":[0,1,2,3,4,5,6,7,8,9]}' }),
      answer: {},
      calls: 0,
    },
  ])('refuse $name of too many tokens', async ({ ctx, answer, calls }) => {
    rig.renderService.play({ json: answer });
    await expect(run(ctx(), { max_total_tokens: 5 })).rejects.toMatchObject({
      status: 400,
      code: 'PROMPT_TOO_LONG',
      message: 'the prompt has 10 tokens, the limit is 5',
    });
    expect(rig.renderService.calls).toHaveLength(calls);
  });

  it('let exactly as many tokens pass', async () => {
    await run(completions('[1,2,3]'), { max_total_tokens: 3.0 });
  });

  it('refuse media of too many tokens', async () => {
    rig.renderService.play(answerFile('render.chat.two-images.json'));
    await run(chat('chat.two-images'), { max_total_placeholder_tokens: 5 });
    await expect(
      run(chat('chat.two-images'), { max_total_placeholder_tokens: 4 }),
    ).rejects.toMatchObject({
      status: 400,
      message: 'the media of the prompt take 5 tokens, the limit is 4',
    });
  });

  it.each([
    { params: { max_total_tokens: -1 }, key: 'max_total_tokens' },
    { params: { max_total_placeholder_tokens: 1.5 }, key: 'max_total_placeholder_tokens' },
    { params: { max_idle_conns_per_host: -1 }, key: 'max_idle_conns_per_host' },
    { params: { timeout: '30' }, key: 'timeout' },
    { params: { idle_conn_timeout: 'abc' }, key: 'idle_conn_timeout' },
    { params: { max_response_size: 0 }, key: 'max_response_size' },
    { params: { address: '' }, key: 'address' },
    { params: { address: 'render:8000' }, key: 'address' },
    { params: { address: 5 }, key: 'address' },
  ])('and $params end the start', ({ params, key }) => {
    expect(() => rig.step(render, params)).toThrow(new RegExp(`^render: ${key}: expected`));
  });

  it('need an address', () => {
    expect(() => rig.step(render, { address: null })).toThrow('render: address: expected');
  });
});

describe('a render service', () => {
  it.each([400, 404, 422, 429, 500, 503])(
    'that answers %i fails the request with that status',
    async (status) => {
      rig.renderService.play({ status, text: 'SECRET' });
      await expect(run(chat('chat.text'))).rejects.toMatchObject({
        code: 'UPSTREAM_ERROR',
        upstreamStatus: status,
        message: `render: upstream returned HTTP ${status}`,
      });
    },
  );

  it.each([201, 204, 307])('must answer 200, not %i', async (status) => {
    rig.renderService.play({ status, headers: { location: '/' } });
    await expect(run(chat('chat.text'))).rejects.toMatchObject({
      status: 502,
      upstreamStatus: status,
    });
  });

  it('that explains a refusal is heard where that is configured', async () => {
    const error = { message: 'unknown model', type: 'NotFoundError', param: 'model', code: 404 };
    rig.renderService.play({ status: 404, json: { error } });
    const relay = { upstreamErrors: 'relay' };
    await expect(run(chat('chat.text'), {}, relay)).rejects.toMatchObject({
      relayed: { message: 'unknown model', type: 'NotFoundError', param: 'model' },
    });
  });

  it.each<{ name: string; answer: Answer; fault: string }>([
    { name: 'resets', answer: { beforeHeaders: 'reset' }, fault: 'reset' },
    {
      name: 'breaks off',
      answer: { headers: { 'content-length': '99' }, chunks: ['{', { end: 'close' }] },
      fault: 'reset',
    },
    { name: 'stalls before its answer', answer: { beforeHeaders: 'hang' }, fault: 'timeout' },
    { name: 'stalls in its answer', answer: { chunks: ['{', { end: 'hang' }] }, fault: 'timeout' },
    {
      name: 'answers too much',
      answer: { text: 'x'.repeat(1_048_577) },
      fault: 'answer-too-large',
    },
  ])('that $name fails the request', async ({ answer, fault }) => {
    rig.renderService.play(answer);
    const params = { timeout: '300ms', max_response_size: 1 };
    await expect(run(chat('chat.text'), params)).rejects.toMatchObject({
      name: 'TransportError',
      fault,
    });
    expect(rig.renderService.calls).toHaveLength(1);
  });

  it.each(['<html>', '{"token_ids":[1]', '{"token_ids":[NaN]}', ''])(
    'that answers %j fails it too',
    async (text) => {
      rig.renderService.play({ text });
      await expect(run(chat('chat.text'))).rejects.toMatchObject({
        status: 502,
        code: 'UPSTREAM_ANSWER_INVALID',
      });
    },
  );

  // vllm-project/production-stack#836: a mesh switches compression on.
  it('is not asked to compress and is understood when it does', async () => {
    const bytes = gzipSync(testdata('answers/render.chat.text.json'));
    rig.renderService.play({ headers: { 'content-encoding': 'gzip' }, bytes });
    const ctx = chat('chat.text', {
      headers: ['accept-encoding', 'gzip, br', 'authorization', 'Bearer t'],
    });
    await run(ctx);
    expect(ctx.tokenIds?.length).toBe(4);
    expect(rig.renderService.calls[0]?.headers['accept-encoding']).toBeUndefined();
    expect(rig.renderService.calls[0]?.headers['authorization']).toEqual(['Bearer t']);
  });

  it('sees the client leave', async () => {
    const client = new AbortController();
    rig.renderService.play({ beforeHeaders: 'hang' });
    const running = run(chat('chat.text', { signal: client.signal }));
    const call = await rig.renderService.received(0);
    client.abort(new ClientGoneError());
    await expect(running).rejects.toMatchObject({ code: 'CLIENT_GONE' });
    await call.ended;
    expect(call.aborted).toBe(true);
  });

  it('may give headers for later legs', async () => {
    rig.renderService.play({
      headers: { 'X-Llm-D-Disagg-Revision': '7' },
      json: { token_ids: [1] },
    });
    const ctx = chat('chat.text');
    await run(ctx, {}, { forwardResponseHeaders: ['x-llm-d-disagg-revision'] });
    expect(ctx.captured.get('x-llm-d-disagg-revision')).toBe('7');
  });
});
