import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { ChatOpenAI, OpenAI } from '@langchain/openai';
import { APICallError, generateText, jsonSchema, Output, streamText, tool } from 'ai';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { drawImage } from '@llm-d/soak';
import { type Answer } from '@llm-d/testing';
import {
  chatAnswer,
  refusal,
  type SdkStack,
  startSdkStack,
  weatherParameters,
} from './sdk-stack.ts';

const id = 'sim/model';
const prompt = 'Say something about harbours.';

let sdk: SdkStack;

beforeAll(async () => {
  sdk = await startSdkStack();
});

afterAll(async () => {
  await sdk.stop();
});

afterEach(async () => {
  await sdk.stack.configure('decode', { fault: '', itlMs: 0 });
});

/** What a call fails with. */
const failureOf = (call: PromiseLike<unknown>): Promise<unknown> =>
  Promise.resolve(call).then(
    () => {
      throw new Error('the call went well');
    },
    (error: unknown) => error,
  );

/** A worker's answer that calls the tool. */
const toolCall: Answer = {
  json: {
    ...{ id: 'c', object: 'chat.completion', created: 1, model: id },
    choices: [
      {
        ...{ index: 0, finish_reason: 'tool_calls' },
        message: {
          role: 'assistant',
          content: null,
          tool_calls: [
            {
              ...{ id: 'call-1', type: 'function' },
              function: { name: 'weather', arguments: '{"city":"Oslo"}' },
            },
          ],
        },
      },
    ],
  },
};

describe('the AI SDK', () => {
  const modelAt = (baseURL: string) =>
    createOpenAICompatible({
      ...{ name: 'llm-d', baseURL, includeUsage: true, supportsStructuredOutputs: true },
    })(id);
  const whole = () => ({ model: modelAt(sdk.baseUrl), maxRetries: 0 });
  const scripted = () => ({ model: modelAt(sdk.scriptedUrl), maxRetries: 0 });

  it('chats', async () => {
    const { text, usage } = await generateText({ ...whole(), prompt, maxOutputTokens: 8 });
    expect(text).toBeTruthy();
    expect(usage.outputTokens).toBe(8);
  });

  it('streams with usage', async () => {
    const result = streamText({ ...whole(), prompt, maxOutputTokens: 8 });
    let text = '';
    for await (const piece of result.textStream) text += piece;
    expect(text).toBeTruthy();
    expect((await result.usage).outputTokens).toBe(8);
  });

  it('has a tool called', async () => {
    sdk.gateway.play(toolCall);
    const first = sdk.gateway.calls.length;
    const { toolCalls } = await generateText({
      ...{ ...scripted(), prompt },
      tools: { weather: tool({ inputSchema: jsonSchema(weatherParameters) }) },
    });
    expect(toolCalls).toMatchObject([{ toolName: 'weather', input: { city: 'Oslo' } }]);
    expect(sdk.gateway.calls[first]?.json()).toMatchObject({
      tools: [{ type: 'function', function: { name: 'weather' } }],
    });
  });

  it('gets structured output; the schema reaches the worker', async () => {
    sdk.gateway.play(chatAnswer('{"city":"Oslo"}'));
    const first = sdk.gateway.calls.length;
    const { output } = await generateText({
      ...{ ...scripted(), prompt },
      output: Output.object({ schema: jsonSchema(weatherParameters) }),
    });
    expect(output).toEqual({ city: 'Oslo' });
    expect(sdk.gateway.calls[first]?.json()).toMatchObject({
      response_format: {
        type: 'json_schema',
        json_schema: { schema: { required: ['city'], properties: { city: { type: 'string' } } } },
      },
    });
  });

  it('asks about images', async () => {
    const { uri } = await drawImage(32);
    const { text } = await generateText({
      ...{ ...whole(), maxOutputTokens: 4 },
      messages: [{ role: 'user', content: [{ type: 'image', image: uri }] }],
    });
    expect(text).toBeTruthy();
  });

  it('learns the reason of an error, and does not retry it', async () => {
    sdk.gateway.play(refusal);
    const first = sdk.gateway.calls.length;
    const failure = await failureOf(
      generateText({ ...scripted(), prompt, temperature: -3, maxRetries: 2 }),
    );
    if (!APICallError.isInstance(failure)) throw failure;
    expect(failure.statusCode).toBe(400);
    expect(failure.message).toContain('temperature must be non-negative');
    expect(sdk.gateway.calls.length - first).toBe(1);
  });

  it('retries when the pod asks, as late as it asks', async () => {
    const first = sdk.gateway.calls.length;
    sdk.gateway.play([
      { status: 503, headers: { 'retry-after': '1' }, json: {} },
      chatAnswer('here'),
    ]);
    const startedAt = performance.now();
    const { text } = await generateText({ ...scripted(), prompt, maxRetries: 1 });
    expect(text).toBe('here');
    expect(sdk.gateway.calls.length - first).toBe(2);
    expect(performance.now() - startedAt).toBeGreaterThan(950);
  });

  it('is cut off by an abort that reaches the worker', async () => {
    await sdk.stack.configure('decode', { itlMs: 50 });
    const abort = new AbortController();
    const result = streamText({
      ...{ ...whole(), prompt, maxOutputTokens: 500, abortSignal: abort.signal },
      headers: { 'x-request-id': 'ai-abort' },
    });
    for await (const piece of result.textStream) if (piece) abort.abort();
    expect(await sdk.stack.summary('ai-abort')).toMatchObject({ outcome: 'cancelled' });
  });

  it('learns why a stream was cut', async () => {
    await sdk.stack.configure('decode', { fault: 'reset;after=5', itlMs: 10 });
    const errors: unknown[] = [];
    const result = streamText({
      ...{ ...whole(), prompt, maxOutputTokens: 20 },
      onError: ({ error }) => void errors.push(error),
    });
    await result.consumeStream();
    expect(JSON.stringify(errors.map(String))).toContain('decode: ');
  });
});

describe('LangChain', () => {
  const modelAt = (baseURL: string, maxRetries = 0) =>
    new ChatOpenAI({ model: id, apiKey: 'any', maxRetries, configuration: { baseURL } });

  it('chats', async () => {
    const answer = await modelAt(sdk.baseUrl).invoke(prompt);
    expect(answer.text).toBeTruthy();
  });

  it('streams', async () => {
    let text = '';
    for await (const chunk of await modelAt(sdk.baseUrl).stream(prompt)) text += chunk.text;
    expect(text).toBeTruthy();
  });

  it('has a tool called', async () => {
    sdk.gateway.play(toolCall);
    const first = sdk.gateway.calls.length;
    const tool = { name: 'weather', parameters: weatherParameters };
    const { tool_calls: calls } = await modelAt(sdk.scriptedUrl)
      .bindTools([{ type: 'function', function: tool }])
      .invoke(prompt);
    expect(calls).toMatchObject([{ name: 'weather', args: { city: 'Oslo' } }]);
    expect(sdk.gateway.calls[first]?.json()).toMatchObject({
      tools: [{ type: 'function', function: tool }],
    });
  });

  // The class that always sends its prompts as an array (spec/clients.md, row 9).
  it('completes one prompt and several, whole and streamed', async () => {
    const model = new OpenAI({
      ...{ model: id, apiKey: 'any', maxRetries: 0, maxTokens: 4 },
      configuration: { baseURL: sdk.baseUrl },
    });
    expect(await model.invoke('Once')).toBeTruthy();
    const { generations } = await model.generate(['Once', 'Twice', 'Thrice']);
    expect(generations.map(([one]) => Boolean(one?.text))).toEqual([true, true, true]);
    let text = '';
    for await (const piece of await model.stream('Once')) text += piece;
    expect(text).toBeTruthy();
  });

  it('gets structured output; the schema reaches the worker', async () => {
    sdk.gateway.play(chatAnswer('{"city":"Oslo"}'));
    const first = sdk.gateway.calls.length;
    const structured = modelAt(sdk.scriptedUrl).withStructuredOutput(weatherParameters, {
      ...{ method: 'jsonSchema', name: 'place' },
    });
    expect(await structured.invoke(prompt)).toEqual({ city: 'Oslo' });
    expect(sdk.gateway.calls[first]?.json()).toMatchObject({
      response_format: { type: 'json_schema', json_schema: { name: 'place' } },
    });
  });

  it('asks about images', async () => {
    const { uri } = await drawImage(33);
    const content = [{ type: 'image_url', image_url: { url: uri } }];
    const answer = await modelAt(sdk.baseUrl).invoke([{ role: 'user', content }]);
    expect(answer.text).toBeTruthy();
  });

  it('is cut off by an abort that reaches the worker', async () => {
    await sdk.stack.configure('decode', { itlMs: 50 });
    const abort = new AbortController();
    const model = new ChatOpenAI({
      ...{ model: id, apiKey: 'any', maxTokens: 500 },
      configuration: {
        baseURL: sdk.baseUrl,
        defaultHeaders: { 'x-request-id': 'langchain-abort' },
      },
    });
    const stream = await model.stream(prompt, { signal: abort.signal });
    const reading = (async () => {
      for await (const chunk of stream) if (chunk.text) abort.abort();
    })();
    await failureOf(reading);
    expect(await sdk.stack.summary('langchain-abort')).toMatchObject({ outcome: 'cancelled' });
  });

  it('learns why a stream was cut', async () => {
    await sdk.stack.configure('decode', { fault: 'reset;after=5', itlMs: 10 });
    const stream = await modelAt(sdk.baseUrl).stream(prompt);
    let text = '';
    const reading = (async () => {
      for await (const chunk of stream) text += chunk.text;
    })();
    expect(String(await failureOf(reading))).toContain('decode: ');
    expect(text).toBeTruthy();
  });

  it('retries what the pod asks to have again', async () => {
    const first = sdk.gateway.calls.length;
    sdk.gateway.play([
      { status: 503, headers: { 'retry-after': '1' }, json: {} },
      chatAnswer('here'),
    ]);
    const startedAt = performance.now();
    const answer = await modelAt(sdk.scriptedUrl, 1).invoke(prompt);
    expect(answer.text).toBe('here');
    expect(sdk.gateway.calls.length - first).toBe(2);
    expect(performance.now() - startedAt).toBeGreaterThan(950);
  });

  it('learns the reason of an error', async () => {
    sdk.gateway.play(refusal);
    const failure = await failureOf(modelAt(sdk.scriptedUrl).invoke(prompt));
    expect(String(failure)).toContain('temperature must be non-negative');
  });
});
