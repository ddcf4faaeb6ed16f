import { describe, expect, it } from '@jest/globals';
import { type JsonObject } from './exact-json.ts';
import { type Answer, generatePath, get, idsOf, post, workerFarm } from './testing.ts';

const start = workerFarm();
const chatPath = '/v1/chat/completions';
const messages = [{ role: 'user', content: 'Say something about rivers.' }];

/** Data of every event, `[DONE]` last. */
const events = (text: string): unknown[] =>
  text
    .split('\n\n')
    .filter((frame) => frame !== '')
    .map((frame) => frame.replace(/^data: /, ''))
    .map((data) => (data === '[DONE]' ? data : (JSON.parse(data) as unknown)));

const choicesOf = ({ json }: Answer): JsonObject[] => json['choices'] as JsonObject[];

describe('chat', () => {
  it('streams a role frame, one frame per token, the finish reason on the last, usage, [DONE]', async () => {
    const { url } = await start({ mode: 'count' });
    const answer = await post(
      url + chatPath,
      { messages, stream: true, max_tokens: 3, stream_options: { include_usage: true } },
      { 'x-request-id': 'r-1' },
    );
    expect(answer.headers['content-type']).toBe('text/event-stream; charset=utf-8');
    const frames = events(answer.text);
    const head = { id: 'chatcmpl-r-1', object: 'chat.completion.chunk', model: 'sim/model' };
    const delta = (content: JsonObject, finish: string | null): unknown =>
      expect.objectContaining({
        ...head,
        choices: [expect.objectContaining({ index: 0, delta: content, finish_reason: finish })],
      });
    expect(frames).toEqual([
      delta({ role: 'assistant', content: '' }, null),
      delta({ content: 't0' }, null),
      delta({ content: ' t1' }, null),
      delta({ content: ' t2' }, 'length'),
      expect.objectContaining({
        ...head,
        choices: [],
        usage: { prompt_tokens: 13, total_tokens: 16, completion_tokens: 3 },
      }),
      '[DONE]',
    ]);
  });

  it('answers whole when it does not stream, n times', async () => {
    const { url } = await start({ mode: 'script', script: 'Two words' });
    const answer = await post(url + chatPath, { messages, n: 2 });
    expect(choicesOf(answer)).toMatchObject([
      { index: 0, message: { role: 'assistant', content: 'Two words' }, finish_reason: 'stop' },
      { index: 1, message: { role: 'assistant', content: 'Two words' }, finish_reason: 'stop' },
    ]);
    expect(answer.json['usage']).toMatchObject({ completion_tokens: 4 });
  });

  it.each([
    {
      name: 'max_completion_tokens wins over max_tokens',
      body: { max_tokens: 1, max_completion_tokens: 2 },
      content: 't0 t1',
      finish: 'length',
    },
    {
      name: 'a stop string ends before it',
      body: { max_tokens: 9, stop: [' t2'] },
      content: 't0 t1',
      finish: 'stop',
    },
    { name: 'no limit: the length of the mode', body: {}, content: 't0 t1 t2 t3', finish: 'stop' },
    {
      name: 'ignore_eos goes on to the limit',
      body: { max_tokens: 6, ignore_eos: true },
      content: 't0 t1 t2 t3 t4 t5',
      finish: 'length',
    },
  ])('$name', async ({ body, content, finish }) => {
    const { url } = await start({ mode: 'count', countTokens: 4 });
    const [choice] = choicesOf(await post(url + chatPath, { messages, ...body }));
    expect(choice).toMatchObject({ message: { content }, finish_reason: finish });
  });
});

describe('chat with tools and logprobs', () => {
  const tools = [{ type: 'function', function: { name: 'get_weather', parameters: {} } }];
  const call = { type: 'function', function: { name: 'get_weather', arguments: '{}' } };

  it.each(['required', { type: 'function', function: { name: 'get_weather' } }])(
    'calls the tool when %j leaves no choice',
    async (choice) => {
      const { url } = await start();
      const whole = await post(url + chatPath, { messages, tools, tool_choice: choice });
      expect(choicesOf(whole)[0]).toMatchObject({
        message: { content: null, tool_calls: [call] },
        finish_reason: 'tool_calls',
      });
      const streamed = await post(url + chatPath, {
        messages,
        tools,
        tool_choice: choice,
        stream: true,
      });
      expect(events(streamed.text)[1]).toMatchObject({
        choices: [{ delta: { tool_calls: [{ index: 0, ...call }] }, finish_reason: 'tool_calls' }],
      });
    },
  );

  it('answers text when the choice is free', async () => {
    const { url } = await start({ mode: 'count' });
    const [choice] = choicesOf(await post(url + chatPath, { messages, tools, max_tokens: 1 }));
    expect(choice).toMatchObject({ message: { content: 't0' } });
  });

  it('gives logprobs the shape that clients read', async () => {
    const { url } = await start({ mode: 'count' });
    const asked = { messages, logprobs: true, max_tokens: 2 };
    const [choice] = choicesOf(await post(url + chatPath, asked));
    expect(choice).toMatchObject({ logprobs: { content: [{ token: 't0' }, { token: ' t1' }] } });
    const text = await post(`${url}/v1/completions`, { prompt: [1], logprobs: 1, max_tokens: 2 });
    expect(choicesOf(text)[0]).toMatchObject({
      logprobs: { tokens: ['t0', ' t1'], text_offset: [0, 2] },
    });
  });
});

describe('completions', () => {
  it('answers several prompts in one call, text and ids', async () => {
    const { url, requests } = await start({ mode: 'count' });
    const texts = await post(`${url}/v1/completions`, { prompt: ['one', 'two'], max_tokens: 2 });
    expect(choicesOf(texts)).toMatchObject([
      { index: 0, text: 't0 t1', finish_reason: 'length' },
      { index: 1, text: 't0 t1', finish_reason: 'length' },
    ]);
    const ids = await post(`${url}/v1/completions`, { prompt: [[1, 2], [3]], max_tokens: 1, n: 2 });
    expect(choicesOf(ids)).toHaveLength(4);
    expect(requests().at(-1)?.promptDigests).toHaveLength(2);
    expect(ids.json['usage']).toMatchObject({ prompt_tokens: 3, completion_tokens: 4 });
  });

  it('has 16 tokens at most when it says nothing, and the last words of the ids', async () => {
    const { url } = await start();
    const tokenized = await post(`${url}/tokenize`, { prompt: 'the quick brown fox' });
    const answer = await post(`${url}/v1/completions`, { prompt: tokenized.json['tokens'] });
    const [choice] = choicesOf(answer);
    expect(choice?.['text']).toBe(
      "I received 4 prompt tokens; KV computed here; your last words: 'the quick brown fox'.",
    );
  });

  it('streams without a role frame', async () => {
    const { url } = await start({ mode: 'count' });
    const answer = await post(`${url}/v1/completions`, {
      prompt: idsOf(1),
      stream: true,
      max_tokens: 2,
    });
    expect(events(answer.text)).toEqual([
      expect.objectContaining({
        object: 'text_completion',
        choices: [expect.objectContaining({ text: 't0', finish_reason: null })],
      }),
      expect.objectContaining({
        choices: [expect.objectContaining({ text: ' t1', finish_reason: 'length' })],
      }),
      '[DONE]',
    ]);
  });
});

describe('generate', () => {
  const body = { token_ids: idsOf(1), sampling_params: { max_tokens: 3 } };

  it('answers token ids with the keys of vLLM 0.32, and text when asked', async () => {
    const { url } = await start({ mode: 'count' });
    const answer = await post(url + generatePath, body, { 'x-request-id': 'r-2' });
    expect(answer.json).toMatchObject({
      request_id: 'generate-tokens-r-2',
      usage: { prompt_tokens: 40, completion_tokens: 3 },
      output_mode: 'tokens',
      kv_transfer_params: null,
      choices: [{ index: 0, token_ids: [0, 1, 2], finish_reason: 'length' }],
    });
    const text = await post(url + generatePath, { ...body, output_mode: 'text' });
    expect(choicesOf(text)[0]?.['text']).toEqual(expect.any(String));
  });

  it('the ids of a report are its text', async () => {
    const { url } = await start();
    const answer = await post(url + generatePath, { ...body, sampling_params: {} });
    const back = await post(`${url}/detokenize`, { tokens: choicesOf(answer)[0]?.['token_ids'] });
    expect(back.json['prompt']).toMatch(
      /^I received 40 prompt tokens; KV computed here; your last words/,
    );
  });

  it('streams one frame per token, then usage, then [DONE]', async () => {
    const { url } = await start({ mode: 'count' });
    const answer = await post(url + generatePath, {
      ...body,
      stream: true,
      stream_options: { include_usage: true },
    });
    const frames = events(answer.text);
    expect(frames).toHaveLength(5);
    expect(frames[2]).toMatchObject({ choices: [{ token_ids: [2], finish_reason: 'length' }] });
    expect(frames[3]).toMatchObject({ choices: [], usage: { completion_tokens: 3 } });
    expect(frames[2]).not.toHaveProperty('object');
  });
});

describe('refusals', () => {
  const generate = { token_ids: [1], sampling_params: {} };
  it.each<{ name: string; path: string; body: unknown; status: number; says: string }>([
    { name: 'no JSON', path: chatPath, body: '{', status: 400, says: 'Invalid JSON' },
    {
      name: 'max_tokens 0',
      path: chatPath,
      body: { messages, max_tokens: 0 },
      status: 400,
      says: 'max_tokens must be at least 1, got 0. (parameter=max_tokens, value=0)',
    },
    {
      name: 'min_tokens over the cap',
      path: chatPath,
      body: { messages, max_tokens: 1, min_tokens: 5 },
      status: 400,
      says: 'min_tokens must be less than or equal to max_tokens=1, got 5.',
    },
    {
      name: 'stream_options without stream',
      path: chatPath,
      body: { messages, stream_options: {} },
      status: 400,
      says: 'Stream options can only be defined when `stream=True`. (parameter=stream_options)',
    },
    {
      name: 'a negative temperature',
      path: chatPath,
      body: { messages, temperature: -3 },
      status: 400,
      says: 'temperature must be non-negative, got -3.0. (parameter=temperature, value=-3.0)',
    },
    {
      name: 'an unknown model',
      path: chatPath,
      body: { messages, model: 'nope' },
      status: 404,
      says: 'The model `nope` does not exist. Valid aliases: sim/model.',
    },
    {
      name: 'params that are no object',
      path: chatPath,
      body: { messages, kv_transfer_params: 'x' },
      status: 400,
      says: 'Input should be a valid dictionary',
    },
    { name: 'no messages', path: chatPath, body: {}, status: 400, says: 'messages' },
    {
      name: 'no token_ids',
      path: generatePath,
      body: { sampling_params: {} },
      status: 400,
      says: 'valid list',
    },
    {
      name: 'empty token_ids',
      path: generatePath,
      body: { ...generate, token_ids: [] },
      status: 400,
      says: 'List should have at least 1 item',
    },
    {
      name: 'no sampling_params',
      path: generatePath,
      body: { token_ids: [1] },
      status: 400,
      says: 'Field required',
    },
    {
      name: 'an id out of vocabulary',
      path: generatePath,
      body: { ...generate, token_ids: [99_999_999] },
      status: 400,
      says: 'Token id 99999999 is out of vocabulary',
    },
    {
      name: 'a placeholder outside the prompt',
      path: generatePath,
      body: {
        ...generate,
        features: {
          mm_hashes: { image: ['a'] },
          mm_placeholders: { image: [{ offset: 0, length: 2 }] },
        },
      },
      status: 400,
      says: 'outside the prompt',
    },
  ])('$name: $status', async ({ path, body, status, says }) => {
    const { url, requests } = await start();
    const answer = await post(url + path, body);
    expect(answer.status).toBe(status);
    expect(answer.json['error']).toMatchObject({
      code: status,
      message: expect.stringContaining(says),
    });
    expect(requests()[0]?.outcome).toMatchObject({ status: 'refused', httpStatus: status });
  });

  it('a prompt over the context length', async () => {
    const { url } = await start({ maxModelLen: 39 });
    const answer = await post(url + generatePath, { token_ids: idsOf(1), sampling_params: {} });
    expect(answer.text).toContain('longer than the maximum model length of 39');
  });

  it('a body over the limit is 413', async () => {
    const { url } = await start({ bodyLimitMb: 1 });
    const answer = await post(url + chatPath, JSON.stringify({ pad: 'x'.repeat(2 * 1024 * 1024) }));
    expect(answer.status).toBe(413);
  });

  it('an unknown path is 404, a wrong method 405', async () => {
    const { url } = await start();
    expect((await get(`${url}/v1/foo`)).status).toBe(404);
    expect((await get(url + chatPath)).status).toBe(405);
  });
});
