import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { drawImage, type ProxiedCall, type Proxy, startProxy } from '@llm-d/soak';
import { ask } from './ask.ts';
import { onePodEach, startTestStack, type TestStack } from './test-stack.ts';

const path = '/v1/chat/completions';

let stack: TestStack;
let proxies: { gateway: Proxy; render: Proxy };
let url: string;

beforeAll(async () => {
  stack = await startTestStack({ workers: onePodEach });
  proxies = {
    gateway: await startProxy(stack.internalUrl),
    render: await startProxy(stack.renderUrl),
  };
  url = await stack.startCoordinator('observed', {
    gateway: { address: proxies.gateway.url },
    renderUrl: proxies.render.url,
  });
});

afterAll(async () => {
  await stack.stop();
  await Promise.all(Object.values(proxies).map((proxy) => proxy.close()));
});

/** Sends a body and shows what each call carried, by phase; the call to render has none. */
async function callsFor(requestId: string, body: string, headers: Record<string, string> = {}) {
  const answer = await ask(url, { path, requestId, body, headers });
  expect(answer.status).toBe(200);
  const calls = [...proxies.render.calls, ...proxies.gateway.calls].filter(
    (call) => call.requestId === requestId,
  );
  return new Map(calls.map((call: ProxiedCall) => [call.phase ?? 'render', call.sent.toString()]));
}

describe('what a client writes', () => {
  it('keeps its digits on every leg', async () => {
    const fields =
      '"seed":9007199254740993,"temperature":1.0,"top_p":0.90,"metadata":{"id":4634343214213523454}';
    const calls = await callsFor(
      'fields-1',
      `{"model":"sim/model",${fields},"messages":[{"role":"user","content":"hi"}]}`,
    );
    expect([...calls.keys()]).toEqual(['render', 'prefill', 'decode']);
    for (const sent of calls.values()) expect(sent).toContain(fields);
  });

  it('caps encode and prefill at one token that is not streamed, and reaches decode whole', async () => {
    const { uri } = await drawImage(1);
    const limits =
      '"stream":true,"stream_options":{"include_usage":true},"min_tokens":3,"max_tokens":5';
    const calls = await callsFor(
      'fields-2',
      `{"model":"sim/model",${limits},"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"${uri}"}}]}]}`,
    );
    for (const phase of ['encode', 'prefill']) {
      const sent = JSON.parse(calls.get(phase) ?? '') as object;
      expect(sent).toMatchObject({ max_tokens: 1, max_completion_tokens: 1, stream: false });
      expect(sent).not.toHaveProperty('min_tokens');
      expect(sent).not.toHaveProperty('stream_options');
    }
    expect(calls.get('decode')).toContain(limits);
  });

  it('keeps what stands beside the URL of a picture', async () => {
    const { uri } = await drawImage(2);
    const imageUrl = `"image_url":{"url":"${uri}","detail":"low","x":1}`;
    const part = `{"type":"image_url",${imageUrl},"cache_control":{"type":"ephemeral"}`;
    const calls = await callsFor(
      'fields-3',
      `{"model":"sim/model","messages":[{"role":"user","content":[${part}},{"type":"text","text":"And this?"}]}]}`,
    );
    expect([...calls.keys()]).toEqual(['render', 'encode', 'prefill', 'decode']);
    for (const phase of ['render', 'encode', 'prefill']) {
      expect(calls.get(phase)).toContain(`${part}}`);
    }
    // The hash is what decode finds the embedding by.
    expect(calls.get('decode')).toMatch(new RegExp(`${escaped(part)},"uuid":"[0-9a-f]{64}"}`));
  });

  it('passes with contents that are null, empty or absent', async () => {
    const messages =
      '[{"role":"user","content":"w?"},{"role":"assistant","content":null,"refusal":null,"tool_calls":' +
      '[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool",' +
      '"tool_call_id":"c1","content":"42"},{"role":"assistant","content":""},{"role":"user","content":[]}]';
    const calls = await callsFor('fields-4', `{"model":"sim/model","messages":${messages}}`);
    for (const sent of calls.values()) expect(sent).toContain(`"messages":${messages}`);
  });

  it('names no host that a worker would contact, and chooses no pod', async () => {
    const params = '{"do_remote_prefill":true,"remote_host":"10.0.0.1","x_client":true}';
    const calls = await callsFor(
      'fields-5',
      `{"model":"sim/model","kv_transfer_params":${params},"ec_transfer_params":{"h":${params}},"messages":[{"role":"user","content":"hi"}]}`,
      {
        'epp-profile': 'encode',
        prefer: 'if-available',
        'x-prefiller-host-port': '10.0.0.1:80',
        'x-gateway-destination-endpoint': '10.0.0.1:80',
        'x-other': 'kept',
      },
    );
    for (const sent of calls.values()) expect(sent).not.toContain('x_client');
    for (const { pod, headers } of await stack.records('fields-5')) {
      const { port } = new URL(stack.pods.find(({ name }) => name === pod)?.url ?? '');
      expect(headers).toMatchObject({
        'x-other': 'kept',
        'x-gateway-destination-endpoint': `127.0.0.1:${port}`,
      });
      expect(headers).not.toHaveProperty('prefer');
      expect(headers).not.toHaveProperty('x-prefiller-host-port');
    }
  });
});

const escaped = (text: string): string => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
