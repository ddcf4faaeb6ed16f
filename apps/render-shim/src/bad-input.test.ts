import { join } from 'node:path';

import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Agent, request } from 'undici';

import { type ModelConfig } from './model-config.ts';
import { type RunningShim, startShim } from './testing.ts';

const CHAT = '/v1/chat/completions/render';
const COMPLETIONS = '/v1/completions/render';
const RESPONSES = '/v1/responses/render';
const MAX_BODY_BYTES = 100_000;
const DIRECTORY = join(import.meta.dirname, 'testdata/qwen3-text');
/** A white pixel, and the same file cut short. */
const PIXEL =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4//8/AAX+Av4N70a4AAAAAElFTkSuQmCC';
const PNG = `data:image/png;base64,${PIXEL}`;
const CUT = `data:image/png;base64,${Buffer.from(PIXEL, 'base64').subarray(0, 45).toString('base64')}`;

const text = (options: object = {}): ModelConfig => ({
  mode: 'embedded',
  profile: { directory: DIRECTORY, enableAutoToolChoice: false, maxModelLen: 64, ...options },
});
const bare = { directory: join(import.meta.dirname, 'testdata/no-template') };
const vision = { maxImages: 2, maxImagePixels: 1_000_000 };

/** The servers that the table asks. */
const configs = {
  text: [text()],
  trusting: [text({ trustRequestChatTemplate: true, enableAutoToolChoice: true })],
  vision: [{ mode: 'embedded', profile: vision }],
  trustingVision: [
    {
      mode: 'embedded',
      profile: { ...vision, trustRequestMmKwargs: true, strictPlaceholders: true },
    },
  ],
  two: [text(), { mode: 'embedded', profile: { ...bare, servedModelNames: ['bare'] } }],
} as const satisfies Record<string, readonly ModelConfig[]>;

type ServerName = keyof typeof configs;

interface BadInput {
  /** Row of render.md section 11, and what of it. */
  readonly row: string;
  readonly server?: ServerName;
  readonly path?: string;
  readonly type?: string;
  /** Text as it is, anything else as JSON. */
  readonly body: unknown;
  readonly status: number;
  readonly error?: string;
  readonly param?: string | null;
  readonly message?: RegExp;
}

const hi = [{ role: 'user', content: 'hi' }];
const tool = { type: 'function', function: { name: 'f' } };
const content = (value: unknown, role = 'user'): object => ({
  messages: [{ role, content: value }],
});
const image = (url: string): object => ({ type: 'image_url', image_url: { url } });
const images = (...urls: string[]): object => content(urls.map(image));
const BAD = 'BadRequestError';
const SCHEMA = 'Bad Request';
const wide = (width: number, height: number): string =>
  `data:image/png;base64,${header(width, height)}`;

/** The start of a PNG file of that size. */
function header(width: number, height: number): string {
  const file = Buffer.from(PIXEL, 'base64');
  file.writeUInt32BE(width, 16);
  file.writeUInt32BE(height, 20);
  return file.toString('base64');
}

const rows: BadInput[] = [
  {
    row: '1 not JSON',
    type: 'text/plain',
    body: { messages: hi },
    status: 400,
    error: SCHEMA,
    message: /application\/json/,
  },
  { row: '2 broken JSON', body: '{"messages":', status: 400, error: SCHEMA, message: /JSON/ },
  {
    row: '2 trailing data',
    body: `${JSON.stringify({ messages: hi })} x`,
    status: 400,
    error: SCHEMA,
    message: /JSON/,
  },
  {
    row: '2 lone surrogate',
    body: '{"messages":[{"role":"user","content":"\\ud800"}]}',
    status: 400,
    message: /surrogate/,
  },
  {
    row: '2 NaN',
    body: '{"messages":[{"role":"user","content":"hi"}],"temperature":NaN}',
    status: 400,
  },
  { row: '3 too large', body: ' '.repeat(MAX_BODY_BYTES + 1), status: 413 },
  {
    row: '4 unknown model',
    body: { model: 'no', messages: hi },
    status: 404,
    error: 'NotFoundError',
    param: 'model',
    message: /`no`.*qwen3-text/,
  },
  {
    row: '4 unknown model of several',
    server: 'two',
    body: { model: 'no', messages: hi },
    status: 404,
    error: 'NotFoundError',
    param: 'model',
    message: /qwen3-text, bare/,
  },
  { row: '5 no model, one served', body: { messages: hi }, status: 200 },
  { row: '5 empty model, one served', body: { model: '', messages: hi }, status: 200 },
  {
    row: '5 no model, two served',
    server: 'two',
    body: { messages: hi },
    status: 400,
    error: BAD,
    param: 'model',
    message: /name one of them: qwen3-text, bare/,
  },
  {
    row: '6 messages missing',
    body: {},
    status: 400,
    error: SCHEMA,
    param: 'body.messages',
    message: /body\.messages/,
  },
  {
    row: '6 messages no array',
    body: { messages: 'x' },
    status: 400,
    error: SCHEMA,
    param: 'body.messages',
  },
  {
    row: '6 message no object',
    body: { messages: ['x'] },
    status: 400,
    error: SCHEMA,
    message: /body\.messages\.0/,
  },
  {
    row: '6 role missing',
    body: { messages: [{ content: 'x' }] },
    status: 400,
    error: SCHEMA,
    message: /body\.messages\.0.*role/,
  },
  {
    row: '7 no messages',
    body: { messages: [] },
    status: 400,
    error: BAD,
    message: /empty conversation/,
  },
  ...['user', 'system', 'tool'].map((role) => ({
    row: `8 null content of ${role}`,
    body: content(null, role),
    status: 400,
  })),
  { row: '9 unknown role', body: content('x', 'narrator'), status: 200 },
  { row: '10 content a number', body: content(1), status: 400, message: /content/ },
  { row: '10 content an object', body: content({}), status: 400, message: /content/ },
  {
    row: '11 unknown part',
    body: content([{ type: 'smell' }]),
    status: 400,
    error: BAD,
    message: /content part 0/,
  },
  {
    row: '11 part without type',
    body: content([{ x: 1 }]),
    status: 400,
    error: BAD,
    message: /content part 0/,
  },
  {
    row: '12 no tools',
    body: { messages: hi, tools: [] },
    status: 400,
    error: BAD,
    param: 'tools',
    message: /tools/,
  },
  {
    row: '13 choice without tools',
    body: { messages: hi, tool_choice: 'auto' },
    status: 400,
    error: BAD,
    param: 'tool_choice',
  },
  {
    row: '13 tool not in the list',
    server: 'trusting',
    body: {
      messages: hi,
      tools: [tool],
      tool_choice: { type: 'function', function: { name: 'g' } },
    },
    status: 400,
    param: 'tool_choice',
  },
  {
    row: '13 bad choice',
    server: 'trusting',
    body: { messages: hi, tools: [tool], tool_choice: 'maybe' },
    status: 400,
    param: 'tool_choice',
  },
  ...['auto', 'required', { type: 'function', function: { name: 'f' } }].map((choice) => ({
    row: `14 choice ${typeof choice === 'string' ? choice : 'named'} without a parser`,
    body: { messages: hi, tools: [tool], tool_choice: choice },
    status: 400,
    error: BAD,
    message: /tool-call-parser/,
  })),
  {
    row: '15 untrusted template',
    body: { messages: hi, chat_template: 'x' },
    status: 400,
    error: BAD,
    message: /trust-request-chat-template/,
  },
  {
    row: '16 untrusted template in kwargs',
    body: { messages: hi, chat_template_kwargs: { chat_template: 'x' } },
    status: 400,
    error: BAD,
  },
  {
    row: '16 messages in kwargs',
    body: { messages: hi, chat_template_kwargs: { messages: [] } },
    status: 400,
    message: /messages/,
  },
  {
    row: '16 tokenize in kwargs is ignored',
    body: { messages: hi, chat_template_kwargs: { tokenize: true } },
    status: 200,
  },
  {
    row: '17 processor options',
    body: { messages: hi, mm_processor_kwargs: { max_pixels: 1 } },
    status: 400,
    param: 'mm_processor_kwargs',
  },
  {
    row: '17 decode options',
    body: { messages: hi, media_io_kwargs: { image: {} } },
    status: 400,
    param: 'media_io_kwargs',
  },
  {
    row: '18 both prompts',
    body: { messages: hi, add_generation_prompt: true, continue_final_message: true },
    status: 400,
    error: BAD,
    message: /continue_final_message/,
  },
  {
    row: '18 final text not found',
    server: 'trusting',
    body: {
      messages: hi,
      add_generation_prompt: false,
      continue_final_message: true,
      chat_template: 'nothing',
    },
    status: 400,
    error: BAD,
  },
  {
    row: '19 template raises',
    server: 'trusting',
    body: { messages: hi, chat_template: '{{ raise_exception("not so") }}' },
    status: 400,
    error: BAD,
    message: /not so/,
  },
  {
    row: '19 type error',
    server: 'trusting',
    body: { messages: hi, chat_template: '{{ 1 + "a" }}' },
    status: 400,
    error: BAD,
    message: /unsupported operand/,
  },
  {
    row: '20 unsupported construct',
    server: 'trusting',
    body: { messages: hi, chat_template: '{% include "x" %}' },
    status: 501,
    error: 'NotImplementedError',
    message: /include/,
  },
  {
    row: '20 endless template',
    server: 'trusting',
    body: {
      messages: hi,
      chat_template:
        '{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}',
    },
    status: 400,
    error: BAD,
  },
  {
    row: '21 no template',
    server: 'two',
    body: { model: 'bare', messages: hi },
    status: 400,
    error: BAD,
    message: /no chat template/,
  },
  {
    row: '22 nothing rendered',
    server: 'trusting',
    body: { messages: hi, chat_template: '{{ "" }}' },
    status: 400,
    error: BAD,
    message: /No token_ids rendered/,
  },
  { row: '23 prompt missing', path: COMPLETIONS, body: {}, status: 400, param: 'prompt' },
  { row: '23 prompt a number', path: COMPLETIONS, body: { prompt: 1 }, status: 400, error: SCHEMA },
  {
    row: '23 prompt mixed',
    path: COMPLETIONS,
    body: { prompt: ['a', 1] },
    status: 400,
    error: SCHEMA,
  },
  {
    row: '23 negative id',
    path: COMPLETIONS,
    body: { prompt: [1, -1] },
    status: 400,
    error: SCHEMA,
    message: /prompt\.1/,
  },
  {
    row: '24 id beyond the vocabulary, as recorded',
    path: COMPLETIONS,
    body: { prompt: [99_999_999] },
    status: 200,
  },
  {
    row: '25 suffix',
    path: COMPLETIONS,
    body: { prompt: 'a', suffix: 'b' },
    status: 400,
    param: 'suffix',
  },
  {
    row: '25 beam search',
    body: { messages: hi, use_beam_search: true },
    status: 400,
    message: /[Bb]eam/,
  },
  {
    row: '26 prompt too long',
    path: COMPLETIONS,
    body: { prompt: 'a b '.repeat(100) },
    status: 400,
    param: 'input_tokens',
    message: /64 tokens/,
  },
  {
    row: '26 prompt far too long',
    path: COMPLETIONS,
    body: { prompt: 'a b '.repeat(1000) },
    status: 400,
    param: 'input_tokens',
  },
  {
    row: '26 max_tokens beyond the context',
    body: { messages: hi, max_tokens: 65 },
    status: 400,
    param: 'max_tokens',
  },
  {
    row: '26 truncation beyond the context',
    body: { messages: hi, truncate_prompt_tokens: 65 },
    status: 400,
    param: 'truncate_prompt_tokens',
  },
  {
    row: '26 truncation below -1',
    body: { messages: hi, truncate_prompt_tokens: -2 },
    status: 400,
    message: /truncate_prompt_tokens/,
  },
  {
    row: '27 stream options without stream',
    body: { messages: hi, stream_options: {} },
    status: 400,
    param: 'stream_options',
  },
  ...['', 'a@b', 'a/b', 'a\\b', 'a\0b', 'x'.repeat(129)].map((salt, at) => ({
    row: `27 cache salt, kind ${at}`,
    body: { messages: hi, cache_salt: salt },
    status: 400,
    param: 'cache_salt',
  })),
  {
    row: '28 no tokens wanted',
    body: { messages: hi, max_tokens: 0 },
    status: 400,
    param: 'max_tokens',
  },
  { row: '28 n of 0', body: { messages: hi, n: 0 }, status: 400, message: /n must be at least 1/ },
  {
    row: '28 negative temperature',
    body: { messages: hi, temperature: -1 },
    status: 400,
    param: 'temperature',
  },
  {
    row: '28 infinite temperature',
    body: '{"messages":[{"role":"user","content":"hi"}],"temperature":1e999}',
    status: 400,
  },
  {
    row: '29 one prompt empty',
    path: COMPLETIONS,
    body: { prompt: ['a', ''] },
    status: 400,
    error: BAD,
  },
  {
    row: '30 previous response',
    path: RESPONSES,
    body: { input: 'hi', previous_response_id: 'r' },
    status: 400,
    error: 'invalid_request_error',
    param: 'previous_response_id',
  },
  {
    row: '31 image for a text model',
    body: images(PNG),
    status: 400,
    error: BAD,
    message: /not a multimodal model/,
  },
  {
    row: '32 too many images',
    server: 'vision',
    body: images(PNG, PNG, PNG),
    status: 400,
    error: BAD,
    param: 'image',
    message: /At most 2 image/,
  },
  {
    row: '33 remote URL',
    server: 'vision',
    body: images('https://example.invalid/a.png'),
    status: 400,
    error: BAD,
  },
  {
    row: '33 file URL',
    server: 'vision',
    body: images('file:///etc/passwd'),
    status: 400,
    error: BAD,
  },
  {
    row: '33 other scheme',
    server: 'vision',
    body: images('ftp://x/a.png'),
    status: 400,
    error: BAD,
  },
  { row: '33 relative URL', server: 'vision', body: images('a.png'), status: 400, error: BAD },
  {
    row: '34 wrong alphabet',
    server: 'vision',
    body: images(`data:image/png;base64,${PIXEL.replace('/', '_')}`),
    status: 400,
    error: BAD,
  },
  {
    row: '34 empty',
    server: 'vision',
    body: images('data:image/png;base64,'),
    status: 400,
    error: BAD,
  },
  {
    row: '34 no comma',
    server: 'vision',
    body: images('data:image/png;base64'),
    status: 400,
    error: BAD,
  },
  {
    row: '34 not base64, as recorded',
    server: 'vision',
    body: images('data:image/png,abc'),
    status: 501,
    error: 'NotImplementedError',
  },
  {
    row: '35 undecodable',
    server: 'vision',
    body: images(`data:image/png;base64,${Buffer.from('hello').toString('base64')}`),
    status: 400,
    error: BAD,
    message: /Failed to load image/,
  },
  {
    row: '35 truncated',
    server: 'vision',
    body: images(CUT),
    status: 400,
    error: BAD,
    message: /Failed to load image/,
  },
  {
    row: '35 unsupported format',
    server: 'vision',
    body: images(
      `data:image/svg+xml;base64,${Buffer.from('<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>').toString('base64')}`,
    ),
    status: 400,
    error: BAD,
    message: /not supported/,
  },
  {
    row: '36 too many pixels',
    server: 'vision',
    body: images(wide(100_000, 100_000)),
    status: 400,
    error: BAD,
    message: /exceeds limit of 1000000 pixels/,
  },
  {
    row: '37 too long-drawn',
    server: 'vision',
    body: images(wide(1000, 2)),
    status: 400,
    error: BAD,
  },
  {
    row: '38 placeholder in the text',
    server: 'vision',
    body: content([{ type: 'text', text: '<|image_pad|>' }, image(PNG)]),
    status: 200,
  },
  {
    row: '38 placeholder in the text, refused on demand',
    server: 'trustingVision',
    body: content([{ type: 'text', text: '<|image_pad|>' }, image(PNG)]),
    status: 400,
    error: BAD,
    message: /2 image placeholder\(s\) for 1 image/,
  },
  {
    row: '39 truncation that cuts an image',
    server: 'vision',
    body: { ...images(PNG), truncate_prompt_tokens: 10 },
    status: 400,
    param: 'truncate_prompt_tokens',
  },
  {
    row: '40 unknown processor option',
    server: 'trustingVision',
    body: { ...images(PNG), mm_processor_kwargs: { magic: 1 } },
    status: 400,
    param: 'mm_processor_kwargs',
    message: /mm_processor_kwargs\.magic/,
  },
  {
    row: '41 video',
    server: 'vision',
    body: content([{ type: 'video_url', video_url: { url: PNG } }]),
    status: 400,
    error: BAD,
    message: /[Vv]ideo/,
  },
  {
    row: '41 audio',
    server: 'vision',
    body: content([{ type: 'input_audio', input_audio: { data: '', format: 'wav' } }]),
    status: 400,
    error: BAD,
    message: /audio/,
  },
];

let servers: Record<ServerName, RunningShim>;
const agent = new Agent();

async function post(
  url: string,
  body: unknown,
  type = 'application/json',
  headers: Record<string, string> = {},
) {
  const answer = await request(url, {
    method: 'POST',
    headers: { 'content-type': type, ...headers },
    body: typeof body === 'string' ? body : JSON.stringify(body),
    dispatcher: agent,
  });
  return { status: answer.statusCode, headers: answer.headers, text: await answer.body.text() };
}

beforeAll(async () => {
  const started = Object.entries(configs).map(async ([name, models]) => [
    name,
    await startShim(models, { maxBodyBytes: MAX_BODY_BYTES }),
  ]);
  servers = Object.fromEntries(await Promise.all(started)) as typeof servers;
});
afterAll(async () => {
  await agent.close();
  await Promise.all(Object.values(servers).map((server) => server.stop()));
});

describe('bad input (render.md 11)', () => {
  it.each(rows)(
    'row $row: $status',
    async ({ server = 'text', path = CHAT, type, body, ...wanted }) => {
      const { url, log } = servers[server];
      const answer = await post(`${url}${path}`, body, type);
      expect(answer.status).toBe(wanted.status);
      if (wanted.status === 200 || wanted.status === 413) return;
      const { error } = JSON.parse(answer.text) as {
        error: { message: string; type: string; param: string | null; code: number };
      };
      expect(error.code).toBe(wanted.status);
      if (wanted.error !== undefined) expect(error.type).toBe(wanted.error);
      if (wanted.param !== undefined) expect(error.param).toBe(wanted.param);
      expect(error.message).toMatch(wanted.message ?? /./);
      if (wanted.status === 501) expect(log.join('')).toContain('NotImplementedError');
    },
  );

  it('row 36 answers before anything is decoded', async () => {
    const startedAt = performance.now();
    await post(`${servers.vision.url}${CHAT}`, images(wide(100_000, 100_000)));
    expect(performance.now() - startedAt).toBeLessThan(1_000);
  });

  it.each([
    { method: 'GET', path: CHAT, status: 405 },
    { method: 'DELETE', path: '/v1/models', status: 405 },
    { method: 'POST', path: '/v1/chat/completions', status: 404 },
  ] as const)('row 42: $method $path is $status', async ({ method, path, status }) => {
    const { statusCode, body } = await request(`${servers.text.url}${path}`, {
      method,
      dispatcher: agent,
    });
    await body.dump();
    expect(statusCode).toBe(status);
  });

  it('row 43: a token is asked for below /v1 and nowhere else', async () => {
    const shim = await startShim([text()], { bearerTokens: ['first', 'second'] });
    const statusWith = async (path: string, headers: Record<string, string>): Promise<number> =>
      (await post(`${shim.url}${path}`, { messages: hi }, 'application/json', headers)).status;
    expect(await statusWith(CHAT, {})).toBe(401);
    expect(await statusWith(CHAT, { authorization: 'Bearer other' })).toBe(401);
    expect(await statusWith(CHAT, { authorization: 'Basic second' })).toBe(401);
    expect(await statusWith(CHAT, { authorization: 'Bearer second' })).toBe(200);
    expect(await statusWith(`//${CHAT.slice(1)}`, {})).toBe(401);
    expect(await statusWith(CHAT.replace('v1', '%761'), {})).toBe(401);
    expect(await statusWith('/tokenize', {})).toBe(200);
    const refused = await post(`${shim.url}${CHAT}`, {});
    expect(JSON.parse(refused.text)).toEqual({ error: 'Unauthorized' });
    await shim.stop();
  });

  it('still answers after all of it, with the workers it started with', async () => {
    expect((await post(`${servers.vision.url}${CHAT}`, images(PNG))).status).toBe(200);
    expect(servers.vision.workers.restarts).toBe(0);
    expect(servers.vision.workers.queued).toEqual({ texts: 0, images: 0 });
  });
});
