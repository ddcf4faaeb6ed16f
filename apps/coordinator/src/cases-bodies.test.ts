import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { type RecordedCall } from '@llm-d/testing';
import { pictureChat, TestCoordinator } from './testing.ts';

// Situations that people reported in public: cases.md, by number.

let coordinator: TestCoordinator;
beforeEach(async () => {
  coordinator = await TestCoordinator.open();
});
afterEach(() => coordinator.close());

/** All steps, conditional decode among them. */
function everyStep(): { type: string; params?: object }[] {
  return [
    { type: 'replace-media-urls' },
    { type: 'render', params: { address: coordinator.renderService.url } },
    ...['conditional-decode', 'encode', 'prefill', 'decode'].map((type) => ({ type })),
  ];
}

describe('C06: stream and stream_options', () => {
  const own = { stream: true, stream_options: { include_usage: true } };

  it.each([
    { name: 'chat', path: '/v1/chat/completions', body: pictureChat, params: {} },
    {
      name: 'tokens-in legs',
      path: '/v1/chat/completions',
      body: pictureChat,
      params: { use_openai_format: false },
    },
    { name: 'completions', path: '/v1/completions', body: { model: 'm', prompt: [1] }, params: {} },
    {
      name: 'generate',
      path: '/inference/v1/generate',
      body: { model: 'm', token_ids: [1], sampling_params: {} },
      params: {},
    },
  ])('reach decode alone: $name', async ({ path, body, params }) => {
    await coordinator.start({ pipeline: { ...params, steps: everyStep() } });
    await coordinator.ask({ ...body, ...own }, { path });
    const synthetic = [...coordinator.legs('encode'), ...coordinator.legs('prefill')];
    expect(synthetic.length).toBe(body === pictureChat ? 2 : 1);
    for (const call of synthetic) {
      expect(call.json()).toMatchObject({ stream: false });
      expect(call.json()).not.toHaveProperty('stream_options');
    }
    const whole = [...coordinator.legs('conditional-decode'), ...coordinator.legs('decode')];
    expect(whole).toHaveLength(2);
    for (const call of whole) expect(call.json()).toMatchObject(own);
  });
});

describe('C11: numbers that doubles do not hold', () => {
  it('keep their digits on every leg that carries them', async () => {
    await coordinator.start({ pipeline: { steps: everyStep() } });
    const picture = JSON.stringify(pictureChat).slice(1, -1);
    const numbers = '"seed":9007199254740993,"metadata":{"id":4634343214213523454,"x":1.0}';
    await coordinator.ask(`{${picture},${numbers}}`);
    for (const phase of ['render', 'conditional-decode', 'prefill', 'decode'] as const) {
      expect(textOf(coordinator.legs(phase))).toContain(numbers);
    }
  });

  it('of a hand-off keep them on the way to decode', async () => {
    await coordinator.start();
    coordinator.play({
      prefill: {
        text: '{"kv_transfer_params":{"remote_block_ids":[[9007199254740993]],"remote_engine_id":"e","remote_request_id":"r","remote_host":"h","remote_port":5600}}',
      },
    });
    await coordinator.ask(pictureChat);
    expect(textOf(coordinator.legs('decode'))).toContain('[[9007199254740993]]');
  });
});

const textOf = ([call]: readonly RecordedCall[]): string => String(call?.body);

describe('C15: half a surrogate pair', () => {
  it.each([
    {
      name: 'in a message',
      body: String.raw`{"model":"m","messages":[{"role":"user","content":"emoji \ud83d"}]}`,
      param: 'messages[0].content',
    },
    {
      name: 'the second half alone',
      body: String.raw`{"model":"m","messages":[{"role":"user","content":"\ude00"}]}`,
      param: 'messages[0].content',
    },
    {
      name: 'in an argument of a tool',
      body: String.raw`{"model":"m","messages":[{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{\"a\":\"\ud83d\"}"}}]}]}`,
      param: 'messages[0].tool_calls[0].function.arguments',
    },
    {
      name: 'in a key',
      body: String.raw`{"model":"m","\ud83d":1}`,
      param: null,
    },
  ])('is 400 that says where, and no leg is called: $name', async ({ body, param }) => {
    await coordinator.start();
    const { status, text } = await coordinator.ask(body);
    expect(status).toBe(400);
    expect(JSON.parse(text)).toMatchObject({
      error: { type: 'invalid_request_error', code: 'BAD_REQUEST', param },
    });
    expect(text).toContain(`${param === null ? '' : `${param}: `}half of a surrogate pair`);
    expect([...coordinator.renderService.calls, ...coordinator.gateway.calls]).toEqual([]);
  });

  it('is no error where both halves stand together: they pass as they are', async () => {
    await coordinator.start();
    const content = String.raw`"emoji \ud83d\ude00"`;
    const body = `{"model":"m","messages":[{"role":"user","content":${content}}]}`;
    coordinator.play({ render: { json: { token_ids: [1] } } });
    expect((await coordinator.ask(body)).status).toBe(200);
    for (const phase of ['render', 'prefill', 'decode'] as const) {
      expect(textOf(coordinator.legs(phase))).toContain(content);
    }
  });
});
