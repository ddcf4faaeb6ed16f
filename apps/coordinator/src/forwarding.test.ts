import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { type RecordedCall } from '@llm-d/testing';
import { pictureChat, TestCoordinator } from './testing.ts';

// coordinator.md 2.8 and the header rows of 8.7, on the wire of every call; design.md decision 4.

let coordinator: TestCoordinator;
beforeEach(async () => {
  coordinator = await TestCoordinator.open();
});
afterEach(() => coordinator.close());

const legs = ['render', 'conditional-decode', 'encode', 'prefill', 'decode'] as const;

async function start(server: Record<string, unknown> = {}): Promise<void> {
  await coordinator.start({
    server,
    pipeline: {
      steps: [
        { type: 'render', params: { address: coordinator.renderService.url } },
        ...legs.slice(1).map((type) => ({ type })),
      ],
      forward_response_headers: ['x-llm-d-disagg-revision'],
    },
  });
}

/** One request through every phase, and one for a path without a route. */
async function callsWith(headers: Record<string, string | string[]>) {
  // Nothing to encode in a text.
  coordinator.play({ render: { json: { token_ids: [1, 2, 3] } } });
  const steps = await coordinator.ask(
    { ...pictureChat, messages: [{ role: 'user', content: 'hi' }] },
    { headers },
  );
  expect(steps.status).toBe(200);
  const other = await coordinator.ask('{}', { path: '/v1/other', headers });
  expect(other.status).toBe(200);
  const passed = coordinator.gateway.calls.filter(({ path }) => path === '/v1/other');
  return [
    ...legs.flatMap((leg) => coordinator.legs(leg).filter(({ path }) => path !== '/v1/other')),
    ...passed,
  ];
}

const valuesOf = (calls: readonly RecordedCall[], name: string) =>
  calls.map(({ headers }) => headers[name]);

describe('headers of a client on every call', () => {
  it.each([
    ['authorization', 'Bearer t'],
    ['cookie', 'a=1'],
    ['x-forwarded-for', '10.0.0.1'],
    ['user-agent', 'sdk/1'],
    ['accept', 'text/event-stream'],
    ['x-gateway-inference-objective', 'fast'],
    ['x-gateway-inference-fairness-id', 'tenant'],
  ])('pass: %s', async (name, value) => {
    await start();
    const calls = await callsWith({ [name]: value });
    expect(calls).toHaveLength(5);
    expect(valuesOf(calls, name)).toEqual(calls.map(() => [value]));
  });

  it('pass with all their values in order', async () => {
    await start();
    const calls = await callsWith({ 'x-multi': ['1', '2, 3', ''] });
    expect(valuesOf(calls, 'x-multi')).toEqual(calls.map(() => ['1', '2, 3', '']));
  });

  it.each([
    ...['x-prefiller-host-port', 'x-encoder-hosts-ports', 'x-data-parallel-host-port'],
    ...['x-kv-cache-source-host-port', 'x-llm-d-pin-host-port', 'x-prefill-pin-host-port'],
    ...['x-gateway-destination-endpoint', 'x-gateway-destination-endpoint-subset'],
    ...['x-llm-d-epp-profile', 'x-llm-d-disagg-revision', 'proxy-authorization', 'keep-alive'],
  ])('that choose, or end here, do not: %s', async (name) => {
    await start();
    const calls = await callsWith({ [name]: 'client' });
    expect(valuesOf(calls, name)).toEqual(calls.map(() => undefined));
  });

  it.each(['epp-profile', 'prefer', 'x-llm-d-revision-decision-id'])(
    'never stand in for ours: %s',
    async (name) => {
      await start();
      const calls = await callsWith({ [name]: 'client' });
      expect(valuesOf(calls, name).flat()).not.toContain('client');
    },
  );

  it('that `connection` names end here', async () => {
    await start();
    const calls = await callsWith({ connection: 'close, x-hop', 'x-hop': '1' });
    expect(valuesOf(calls, 'x-hop')).toEqual(calls.map(() => undefined));
  });

  it('are taken out by server.strip_request_headers', async () => {
    await start({ strip_request_headers: ['Cookie'] });
    const calls = await callsWith({ cookie: 'a=1', 'x-b': '1' });
    expect(valuesOf(calls, 'cookie')).toEqual(calls.map(() => undefined));
    expect(valuesOf(calls, 'x-b')).toEqual(calls.map(() => ['1']));
  });

  it('are let back one by one by server.keep_request_headers', async () => {
    await start({ keep_request_headers: ['X-Llm-D-Pin-Host-Port'] });
    const calls = await callsWith({ 'x-llm-d-pin-host-port': 'p', 'x-prefill-pin-host-port': 'q' });
    expect(valuesOf(calls, 'x-llm-d-pin-host-port')).toEqual(calls.map(() => ['p']));
    expect(valuesOf(calls, 'x-prefill-pin-host-port')).toEqual(calls.map(() => undefined));
  });

  it('ask for codings only where the answer goes back as it is', async () => {
    await start();
    const calls = await callsWith({ 'accept-encoding': 'gzip' });
    expect(valuesOf(calls, 'accept-encoding')).toEqual([
      undefined,
      ['gzip'],
      undefined,
      ['gzip'],
      ['gzip'],
    ]);
  });
});

describe('headers of the coordinator', () => {
  it('stand once on every call, even where the client sent none', async () => {
    await start();
    coordinator.play({ render: { json: { token_ids: [1] } } });
    const body = { model: 'm', messages: [] };
    const { headers } = await coordinator.ask(body);
    const calls = [...coordinator.renderService.calls, ...coordinator.gateway.calls];
    const id = String(headers['x-request-id']);
    expect(valuesOf(calls, 'x-request-id')).toEqual(calls.map(() => [id]));
    const [decision] = valuesOf(calls, 'x-llm-d-revision-decision-id');
    expect(decision?.[0]).toMatch(/^[0-9a-f-]{36}$/);
    expect(decision).not.toEqual([id]);
    expect(valuesOf(calls, 'x-llm-d-revision-decision-id')).toEqual(calls.map(() => decision));
    expect(valuesOf(calls, 'content-type')).toEqual(calls.map(() => ['application/json']));
    expect(valuesOf(calls, 'epp-profile')).toEqual([
      undefined,
      ['decode'],
      ['prefill'],
      ['decode'],
    ]);
  });

  it('carry on what an earlier phase answered, and the client never sees it', async () => {
    await start();
    const revision = { 'x-llm-d-disagg-revision': '7' };
    coordinator.play({
      render: { json: { token_ids: [1] } },
      prefill: { headers: revision, json: {} },
    });
    const answer = await coordinator.ask(
      { model: 'm', messages: [] },
      { headers: { 'x-llm-d-disagg-revision': 'mine' } },
    );
    const calls = [...coordinator.renderService.calls, ...coordinator.gateway.calls];
    expect(valuesOf(calls, 'x-llm-d-disagg-revision')).toEqual([
      undefined,
      undefined,
      undefined,
      ['7'],
    ]);
    expect(answer.headers['x-llm-d-disagg-revision']).toBeUndefined();
  });

  it.each([
    { name: 'a valid id', id: 'valid-1', isKept: true },
    { name: 'a hostile one', id: '../../x', isKept: false },
  ])('on other paths: $name', async ({ id, isKept }) => {
    await start();
    const { headers } = await coordinator.ask('{}', {
      path: '/v1/other',
      headers: { 'x-request-id': id },
    });
    const [call] = coordinator.gateway.calls;
    expect(call?.headers['x-request-id']).toEqual([headers['x-request-id']]);
    expect(headers['x-request-id'] === id).toBe(isKept);
  });
});
