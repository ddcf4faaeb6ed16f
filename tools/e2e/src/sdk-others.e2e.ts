import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { ChatOpenAI } from '@langchain/openai';
import { APICallError, generateText, jsonSchema, Output, streamText, tool } from 'ai';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { drawImage } from '@llm-d/soak';
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
    sdk.gateway.play({
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
    });
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
  const modelAt = (baseURL: string) =>
    new ChatOpenAI({ model: id, apiKey: 'any', maxRetries: 0, configuration: { baseURL } });

  it('chats', async () => {
    const answer = await modelAt(sdk.baseUrl).invoke(prompt);
    expect(answer.text).toBeTruthy();
  });

  it('streams', async () => {
    let text = '';
    for await (const chunk of await modelAt(sdk.baseUrl).stream(prompt)) text += chunk.text;
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

  it('learns the reason of an error', async () => {
    sdk.gateway.play(refusal);
    const failure = await failureOf(modelAt(sdk.scriptedUrl).invoke(prompt));
    expect(String(failure)).toContain('temperature must be non-negative');
  });
});
