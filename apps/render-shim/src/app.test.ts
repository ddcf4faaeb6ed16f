import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import supertest from 'supertest';

import { type RunningShim, startShim } from './testing.ts';

const CHAT = '/v1/chat/completions/render';
const COMPLETIONS = '/v1/completions/render';
const RESPONSES = '/v1/responses/render';
const MAX_BODY_BYTES = 200_000;
/** A white pixel. */
const IMAGE =
  'data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4//8/AAX+Av4N70a4AAAAAElFTkSuQmCC';
const imageChat = {
  messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url: IMAGE } }] }],
};
const hi = { messages: [{ role: 'user', content: 'hi' }] };
const hiTokens = [151644, 872, 198, 6023, 151645, 198, 151644, 77091, 198];

let shim: RunningShim;

interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly text: string;
  readonly body: unknown;
}

async function post(
  path: string,
  body: unknown,
  headers: Record<string, string> = {},
): Promise<Answer> {
  return supertest(shim.url)
    .post(path)
    .set({ 'content-type': 'application/json', ...headers })
    .send(typeof body === 'string' ? body : JSON.stringify(body));
}

async function get(path: string): Promise<Answer> {
  return supertest(shim.url).get(path);
}

beforeAll(async () => {
  shim = await startShim([{ mode: 'embedded', profile: {} }], {
    maxBodyBytes: MAX_BODY_BYTES,
    tenantHeader: 'x-tenant',
  });
});

afterAll(async () => {
  await shim.stop();
});

describe('the render routes', () => {
  it('answers a chat with the fields of vLLM in their order', async () => {
    const { status, body, headers, text } = await post(CHAT, hi);
    expect(status).toBe(200);
    expect(headers['content-type']).toBe('application/json');
    expect(headers['x-render-mode']).toBe('embedded');
    expect(headers['x-render-cache']).toBe('off');
    expect(headers['server-timing']).toMatch(/^template;dur=\d+\.\d\d, tokenize;dur=\d+\.\d\d$/);
    expect(Object.keys(JSON.parse(text) as object)).toEqual([
      'request_id',
      'token_ids',
      'token_offsets',
      'features',
      'content_parts',
      'sampling_params',
      'model',
      'reasoning_ended',
      'reasoning_parser_kwargs',
      'return_token_ids',
      'output_mode',
      'parse_context',
      'stream',
      'stream_options',
      'cache_salt',
      'priority',
      'kv_transfer_params',
      'ec_transfer_params',
    ]);
    expect(body).toMatchObject({ token_ids: hiTokens, features: null, output_mode: 'tokens' });
  });

  it('says whether it knew the text, to each tenant for itself', async () => {
    const long = { messages: [{ role: 'user', content: 'long '.repeat(200) }] };
    const cacheFor = async (tenant: string): Promise<string | undefined> => {
      const { headers } = await post(CHAT, long, { 'x-tenant': tenant });
      return headers['x-render-cache'];
    };
    expect(await cacheFor('one')).toBe('miss');
    expect(await cacheFor('one')).toBe('hit');
    expect(await cacheFor('two')).toBe('miss');
  });

  it('answers a response like a chat, under an id of its own', async () => {
    const header = { 'x-request-id': 'of-the-header' };
    const { status, body } = await post(RESPONSES, { input: 'hi' }, header);
    expect(status).toBe(200);
    expect(body).toMatchObject({
      request_id: expect.stringMatching(/^resp_[0-9a-f]{16}$/),
      token_ids: hiTokens,
      features: null,
      parse_context: null,
    });
    const named = await post(RESPONSES, { input: 'hi', request_id: 'mine' }, header);
    expect(named.body).toMatchObject({ request_id: 'mine' });
    const input = [{ role: 'user', content: [{ type: 'input_image', image_url: IMAGE }] }];
    const [chat, response] = [await post(CHAT, imageChat), await post(RESPONSES, { input })];
    const features = (answer: Answer): unknown => (answer.body as { features: unknown }).features;
    expect(features(response)).toEqual(features(chat));
    const stateful = await post(RESPONSES, { input: 'hi', previous_response_id: 'r' });
    expect(stateful.body).toMatchObject({
      error: { type: 'invalid_request_error', param: 'previous_response_id', code: 400 },
    });
  });

  it('answers an image with its hash, its placeholder, its grid and its tensor', async () => {
    const { body, headers, text } = await post(CHAT, imageChat);
    expect(body).toMatchObject({
      features: {
        mm_hashes: { image: [expect.stringMatching(/^[0-9a-f]{64}$/)] },
        mm_placeholders: { image: [{ offset: 4, length: 64 }] },
        kwargs_data: { image: [expect.any(String)] },
        mm_metadata: { image: [expect.any(String)] },
      },
    });
    expect(headers['content-length']).toBe(String(Buffer.byteLength(text)));
    const { features } = body as { features: { kwargs_data: { image: [string] } } };
    const blob = Buffer.from(features.kwargs_data.image[0], 'base64');
    // 40 bytes of names and sizes, then 256 patches of 1536 bytes, all white.
    expect(blob.length).toBe(393_388);
    expect(blob.subarray(40, 40 + 393_216).every((byte) => byte === 255)).toBe(true);
  });

  it.each([
    { name: 'mm_payload none', cheap: { mm_payload: 'none' } },
    { name: 'its older spelling', cheap: { return_mm_kwargs: false } },
  ])('leaves tensors and metadata out with $name', async ({ cheap }) => {
    const { body } = await post(CHAT, { ...imageChat, ...cheap });
    expect(body).toMatchObject({
      features: {
        mm_placeholders: { image: [{ offset: 4, length: 64 }] },
        kwargs_data: null,
        mm_metadata: null,
      },
    });
  });

  it('writes a list of nulls for callers that compare list lengths', async () => {
    const { body } = await post(
      CHAT,
      { ...imageChat, mm_payload: 'none' },
      { 'x-render-compat': 'lists' },
    );
    expect(body).toMatchObject({ features: { kwargs_data: { image: [null] } } });
  });

  it('answers completions with one object per prompt', async () => {
    const { body } = await post(COMPLETIONS, { prompt: ['a', 'b'], request_id: 'own' });
    expect(body).toMatchObject([
      { request_id: 'cmpl-own-0', token_ids: [64] },
      { request_id: 'cmpl-own-1', token_ids: [65] },
    ]);
  });

  it.each([
    {
      name: 'from the header first',
      headers: { 'x-request-id': 'my-id.1' },
      id: 'chatcmpl-my-id.1',
    },
    { name: 'from the body next', headers: {}, id: 'chatcmpl-body-id' },
  ])('takes the request id $name', async ({ headers, id }) => {
    const { body } = await post(CHAT, { ...hi, request_id: 'body-id' }, headers);
    expect(body).toMatchObject({ request_id: id });
  });

  it('makes up a request id of 16 hex digits', async () => {
    const { body } = await post(CHAT, hi);
    expect(body).toMatchObject({ request_id: expect.stringMatching(/^chatcmpl-[0-9a-f]{16}$/) });
  });

  it('accepts a byte order mark and any spelling of the content type', async () => {
    const { status } = await post(CHAT, `\ufeff${JSON.stringify(hi)}`, {
      'content-type': 'APPLICATION/JSON; charset=utf-8',
    });
    expect(status).toBe(200);
  });
});

describe('refusals', () => {
  it.each([
    {
      name: 'broken JSON',
      body: '{"messages":[',
      status: 400,
      type: 'Bad Request',
      param: 'body.13',
    },
    { name: 'no messages', body: '{}', status: 400, type: 'Bad Request', param: 'body.messages' },
    {
      name: 'an unknown model',
      body: '{"model":"nope","messages":[{"role":"user","content":"x"}]}',
      status: 404,
      type: 'NotFoundError',
      param: 'model',
    },
    {
      name: 'a data URL that is not base64',
      body: '{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png,abc"}}]}]}',
      status: 501,
      type: 'NotImplementedError',
      param: null,
    },
    {
      name: 'template options that name hosts',
      body: '{"messages":[{"role":"user","content":"x"}],"vllm_xargs":{}}',
      status: 501,
      type: 'NotImplementedError',
      param: 'vllm_xargs',
    },
  ])('answers $name with the error object of vLLM', async ({ body, status, type, param }) => {
    const answer = await post(CHAT, body);
    expect(answer.status).toBe(status);
    expect(answer.body).toEqual({
      error: { message: expect.any(String), type, param, code: status },
    });
  });

  it.each(['text/plain', 'application/vnd.x+json'])('refuses the content type %s', async (type) => {
    const { status, body } = await post(CHAT, hi, { 'content-type': type });
    expect(status).toBe(400);
    expect(body).toMatchObject({ error: { type: 'Bad Request', param: null } });
  });

  it('says that /v1/messages/render is not built', async () => {
    const { status, body } = await post('/v1/messages/render', {});
    expect(status).toBe(501);
    expect(body).toMatchObject({ error: { type: 'NotImplementedError' } });
  });

  it('refuses a body over the limit', async () => {
    const { status } = await post(CHAT, ' '.repeat(MAX_BODY_BYTES + 1));
    expect(status).toBe(413);
  });

  it.each([
    { method: 'get', path: CHAT, status: 405 },
    { method: 'post', path: '/inference/v1/generate', status: 404 },
  ] as const)('answers $method $path with $status', async ({ method, path, status }) => {
    expect((await supertest(shim.url)[method](path)).status).toBe(status);
  });
});

describe('the other routes', () => {
  it('tokenizes a prompt and spells its tokens', async () => {
    const { body } = await post('/tokenize', {
      prompt: 'h\u00e9llo \u{1f600}',
      return_token_strs: true,
    });
    expect(body).toEqual({
      count: 4,
      max_model_len: 262144,
      tokens: [71, 18503, 385, 90316],
      token_strs: ['h', '\u00c3\u00a9l', 'lo', '\u0120\u00f0\u0141\u013a\u0122'],
    });
  });

  it('tokenizes a chat with and without its generation prompt', async () => {
    const withPrompt = await post('/tokenize', hi);
    expect(withPrompt.body).toMatchObject({ count: 9, tokens: hiTokens, token_strs: null });
    const without = await post('/tokenize', { ...hi, add_generation_prompt: false });
    expect(without.body).toMatchObject({ count: 6 });
  });

  it('answers an empty prompt with no tokens and a missing one with 400', async () => {
    expect((await post('/tokenize', { prompt: '' })).body).toMatchObject({ count: 0, tokens: [] });
    expect((await post('/tokenize', {})).body).toMatchObject({ error: { param: 'body.prompt' } });
  });

  it.each([
    { name: 'words', tokens: [14990, 1879], prompt: 'hello world' },
    { name: 'special tokens', tokens: [151644, 872, 198], prompt: '<|im_start|>user\n' },
    { name: 'nothing', tokens: [], prompt: '' },
    { name: 'unknown ids', tokens: [99999999], prompt: '' },
  ])('detokenizes $name', async ({ tokens, prompt }) => {
    expect((await post('/detokenize', { tokens })).body).toEqual({ prompt });
  });

  it('refuses a negative token', async () => {
    const { status, body } = await post('/detokenize', { tokens: [-1] });
    expect(status).toBe(400);
    expect(body).toMatchObject({ error: { param: 'body.tokens.0' } });
  });

  it('lists the served names with the name that enters hashes', async () => {
    const { body } = await get('/v1/models');
    expect(body).toMatchObject({
      object: 'list',
      data: [
        { id: 'qwen3-vl', object: 'model', root: 'qwen3-vl', max_model_len: 262144 },
        { id: 'sim/model', root: 'qwen3-vl' },
      ],
    });
  });

  it('names the vLLM release it follows', async () => {
    expect((await get('/version')).body).toEqual({ version: '0.33.0' });
  });

  it.each(['/health', '/healthz', '/readyz', '/ping'])('answers %s', async (path) => {
    expect((await get(path)).status).toBe(200);
  });
});
