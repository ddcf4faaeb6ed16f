import OpenAI from 'openai';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { drawImage } from '@llm-d/soak';
import {
  chatAnswer,
  refusal,
  type SdkStack,
  startSdkStack,
  weatherParameters,
} from './sdk-stack.ts';

const model = 'sim/model';
const messages = [{ role: 'user' as const, content: 'Say something about harbours.' }];

let sdk: SdkStack;
let client: OpenAI;
/** Talks to the coordinator whose gateway plays scripts. */
let scripted: OpenAI;

beforeAll(async () => {
  sdk = await startSdkStack();
  client = new OpenAI({ apiKey: 'any', baseURL: sdk.baseUrl, maxRetries: 0 });
  scripted = new OpenAI({ apiKey: 'any', baseURL: sdk.scriptedUrl, maxRetries: 0 });
});

afterAll(async () => {
  await sdk.stop();
});

afterEach(async () => {
  await sdk.stack.configure('decode', { fault: '', itlMs: 0 });
});

/** What an SDK throws for an answer that is an error. */
async function failureOf(
  call: PromiseLike<unknown>,
): Promise<InstanceType<typeof OpenAI.APIError>> {
  try {
    await call;
  } catch (error) {
    if (error instanceof OpenAI.APIError) return error;
    throw error;
  }
  throw new Error('the call went well');
}

describe('openai-node', () => {
  it('chats', async () => {
    const answer = await client.chat.completions.create({ model, messages, max_tokens: 8 });
    expect(answer.choices[0]?.message.content).toBeTruthy();
    expect(answer.usage?.completion_tokens).toBe(8);
    expect(answer._request_id).toMatch(/./);
  });

  it('streams with usage', async () => {
    const stream = await client.chat.completions.create({
      ...{ model, messages, max_tokens: 8, stream: true },
      stream_options: { include_usage: true },
    });
    let [text, tokens] = ['', 0];
    for await (const chunk of stream) {
      text += chunk.choices[0]?.delta.content ?? '';
      tokens = chunk.usage?.completion_tokens ?? tokens;
    }
    expect(text).toBeTruthy();
    expect(tokens).toBe(8);
  });

  it('has a tool called', async () => {
    const answer = await client.chat.completions.create({
      ...{ model, messages, tool_choice: 'required' },
      tools: [{ type: 'function', function: { name: 'weather', parameters: weatherParameters } }],
    });
    const [call] = answer.choices[0]?.message.tool_calls ?? [];
    expect(call).toMatchObject({ type: 'function', function: { name: 'weather' } });
  });

  it('gets structured output; the schema reaches the worker', async () => {
    sdk.gateway.play(chatAnswer('{"city":"Oslo"}'));
    const first = sdk.gateway.calls.length;
    const format = {
      type: 'json_schema' as const,
      json_schema: { name: 'place', strict: true, schema: weatherParameters },
    };
    const answer = await scripted.chat.completions.parse({
      ...{ model, messages, response_format: format },
    });
    expect(answer.choices[0]?.message.parsed).toEqual({ city: 'Oslo' });
    expect(sdk.gateway.calls[first]?.json()).toMatchObject({ response_format: format });
  });

  it('asks about images', async () => {
    const { uri } = await drawImage(31);
    const answer = await client.chat.completions.create({
      ...{ model, max_tokens: 4 },
      messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url: uri } }] }],
    });
    expect(answer.choices[0]?.message.content).toBeTruthy();
    expect(answer.usage?.prompt_tokens).toBeGreaterThan(4);
  });

  it('uses the responses API, whole and streamed', async () => {
    const question = { model, input: 'Say something.', max_output_tokens: 8 };
    const answer = await client.responses.create(question);
    expect(answer.output_text).toBeTruthy();
    let last = '';
    for await (const event of await client.responses.create({ ...question, stream: true })) {
      last = event.type;
    }
    expect(last).toMatch(/^response\.(completed|incomplete)$/);
  });

  it('uses the completions API', async () => {
    const answer = await client.completions.create({ model, prompt: 'Once', max_tokens: 4 });
    expect(answer.choices[0]?.text).toBeTruthy();
  });

  it('is cut off by an abort that reaches the worker', async () => {
    await sdk.stack.configure('decode', { itlMs: 50 });
    const abort = new AbortController();
    const stream = await client.chat.completions.create(
      { model, messages, max_tokens: 500, stream: true },
      { signal: abort.signal, headers: { 'x-request-id': 'sdk-abort' } },
    );
    for await (const chunk of stream) if (chunk.choices[0]?.delta.content) abort.abort();
    expect(await sdk.stack.summary('sdk-abort')).toMatchObject({ outcome: 'cancelled' });
  });

  it('learns why a stream was cut', async () => {
    await sdk.stack.configure('decode', { fault: 'reset;after=5', itlMs: 10 });
    const stream = await client.chat.completions.create({
      ...{ model, messages, max_tokens: 20, stream: true },
    });
    let text = '';
    const failure = await failureOf(
      (async () => {
        for await (const chunk of stream) text += chunk.choices[0]?.delta.content ?? '';
      })(),
    );
    expect(text).toBeTruthy();
    expect(failure.message).toContain('decode: ');
  });
});

/** The rows of spec/clients.md, as an SDK sees them. */
describe('clients.md', () => {
  it('row 1: an error has the reason of the worker', async () => {
    sdk.gateway.play(refusal);
    const failure = await failureOf(
      scripted.chat.completions.create({ model, messages, temperature: -3 }),
    );
    expect(failure).toMatchObject({ status: 400, param: 'temperature' });
    expect(failure.message).toContain('temperature must be non-negative');
  });

  it('row 2: an error of the coordinator has the request id', async () => {
    const failure = await failureOf(
      client.chat.completions.create(
        { model, messages: 'none' as never },
        { headers: { 'x-request-id': 'row-2' } },
      ),
    );
    expect(failure).toMatchObject({ status: 400, requestID: 'row-2' });
  });

  it('row 3: a retry waits as long as the pod asks', async () => {
    const first = sdk.gateway.calls.length;
    sdk.gateway.play([
      { status: 503, headers: { 'retry-after': '1' }, json: { error: 'busy' } },
      chatAnswer('here'),
    ]);
    const startedAt = performance.now();
    const answer = await scripted.chat.completions.create({ model, messages }, { maxRetries: 2 });
    expect(answer.choices[0]?.message.content).toBe('here');
    expect(sdk.gateway.calls.length - first).toBe(2);
    expect(performance.now() - startedAt).toBeGreaterThan(950);
  });

  it('row 3: a retry that the pod forbids is not made', async () => {
    const first = sdk.gateway.calls.length;
    sdk.gateway.play({ status: 503, headers: { 'x-should-retry': 'false' }, json: {} });
    await failureOf(scripted.chat.completions.create({ model, messages }, { maxRetries: 2 }));
    expect(sdk.gateway.calls.length - first).toBe(1);
  });

  it('row 4: overload stays 503', async () => {
    sdk.gateway.play({ status: 503, text: 'upstream connect error' });
    const failure = await failureOf(scripted.chat.completions.create({ model, messages }));
    expect(failure.status).toBe(503);
  });

  it('row 5: legs that are read here are not asked for compressed answers', async () => {
    const { data, response } = await client.chat.completions
      .create({ model, messages, max_tokens: 2 }, { headers: { 'x-request-id': 'row-5' } })
      .withResponse();
    expect(response.status).toBe(200);
    expect(data.choices).toHaveLength(1);
    const [prefill] = await sdk.stack.records('row-5', 'prefill');
    const [decode] = await sdk.stack.records('row-5', 'decode');
    expect(prefill?.headers).not.toHaveProperty(['accept-encoding']);
    expect(decode?.headers['accept-encoding']).toContain('gzip');
  });

  it('row 6: models are listed', async () => {
    const { data } = await client.models.list();
    expect(data.map(({ id }) => id)).toContain(model);
  });

  it('row 7: the responses API is served', async () => {
    const answer = await client.responses.create({ model, input: 'Hi', max_output_tokens: 4 });
    expect(answer.object).toBe('response');
  });

  it('row 8: /health answers', async () => {
    expect((await fetch(`${sdk.stack.coordinatorUrl}/health`)).status).toBe(200);
  });

  it.each([
    { name: 'texts', prompt: ['Once', 'Twice'] },
    { name: 'token ids', prompt: [1, 2, 3] },
    {
      name: 'lists of token ids',
      prompt: [
        [1, 2, 3],
        [4, 5],
      ],
    },
    { name: 'one text', prompt: ['Once'] },
  ])('row 9: an array prompt of $name is served', async ({ prompt }) => {
    const count = typeof prompt[0] === 'number' ? 1 : prompt.length;
    const indexes = Array.from({ length: count }, (_, index) => index);
    const question = { model, prompt: prompt as string[], max_tokens: 4 };
    const { choices, usage } = await client.completions.create(question);
    expect(choices.map(({ index }) => index)).toEqual(indexes);
    expect(choices.every(({ text }) => text !== '')).toBe(true);
    expect(usage?.completion_tokens).toBe(4 * count);

    const texts = indexes.map(() => '');
    for await (const chunk of await client.completions.create({ ...question, stream: true })) {
      for (const { index, text } of chunk.choices) texts[index] += text;
    }
    expect(texts).toEqual(choices.map(({ text }) => text));
  });

  it('row 10: the body keeps its bytes', async () => {
    const first = sdk.gateway.calls.length;
    sdk.gateway.play(chatAnswer('here'));
    const tools = [
      { type: 'function' as const, function: { parameters: { zeta: 1, alpha: 2 }, name: 'f' } },
    ];
    await scripted.chat.completions.create({ model, messages, tools, seed: 7 });
    const sent = JSON.stringify({ model, messages, tools, seed: 7 });
    expect(sdk.gateway.calls[first]?.body.toString()).toBe(sent);
  });

  it('row 11: a wrong method and a dead image link are errors of the client', async () => {
    const wrongMethod = await failureOf(client.get('/chat/completions'));
    expect(wrongMethod).toMatchObject({ status: 405, code: 'METHOD_NOT_ALLOWED' });
    const url = 'http://127.0.0.1:9/dead.png';
    const dead = await failureOf(
      client.chat.completions.create({
        model,
        messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url } }] }],
      }),
    );
    expect(dead.status).toBe(400);
    expect(dead.param).toContain('messages[0].content[0]');
  });
});
