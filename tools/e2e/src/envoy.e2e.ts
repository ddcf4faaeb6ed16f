import { hash } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import {
  type EnvoyProcess,
  type NginxProcess,
  onLoopback,
  readEnvoyConfig,
  startEnvoy,
  startNginx,
} from '@llm-d/deploy-check';
import { freePorts } from '@llm-d/local-stack';
import { chatOf, drawImage, until } from '@llm-d/soak';
import { ask, eventsOf, open } from './ask.ts';
import { startTestStack, type TestStack } from './test-stack.ts';

// The whole way through the real Envoy with the file that is shipped, other addresses apart:
// client, public listener, coordinator, internal listener, workers. And once more through nginx, which is another kind of proxy.
const path = '/v1/chat/completions';
const tokenIntervalMs = 60;
const abortLimitMs = 1000;

let stack: TestStack;
let envoy: EnvoyProcess;
let url: string;
let internalUrl: string;
let nginx: NginxProcess;
let nginxUrl: string;
let nginxInternalUrl: string;

beforeAll(async () => {
  stack = await startTestStack({ workers: { encode: 2, prefill: 2, decode: 2 } });
  const [admin = 0, publicPort = 0, internal = 0, stats = 0] = await freePorts(4);
  internalUrl = `http://127.0.0.1:${internal}`;
  const coordinator = await stack.startCoordinator('behind-envoy', {
    gateway: { address: internalUrl },
  });
  const podsOf = (role: string): string[] =>
    stack.pods.filter((pod) => pod.role === role).map((pod) => new URL(pod.url).host);
  const config = onLoopback(readEnvoyConfig('deploy/envoy/envoy.yaml'), {
    admin,
    listeners: { public: publicPort, internal, stats },
    clusters: {
      coordinator: [new URL(coordinator).host],
      encode: podsOf('encode'),
      prefill: podsOf('prefill'),
      decode: podsOf('decode'),
    },
  });
  envoy = await startEnvoy(config, stats);
  url = `http://127.0.0.1:${publicPort}`;

  const [nginxPublic = 0, nginxInternal = 0] = await freePorts(2);
  nginxUrl = `http://127.0.0.1:${nginxPublic}`;
  nginxInternalUrl = `http://127.0.0.1:${nginxInternal}`;
  const behindNginx = await stack.startCoordinator('behind-nginx', {
    gateway: { address: nginxInternalUrl },
  });
  nginx = await startNginx({
    ports: { public: nginxPublic, internal: nginxInternal },
    upstreams: {
      coordinator: [new URL(behindNginx).host],
      encode: podsOf('encode'),
      prefill: podsOf('prefill'),
      decode: podsOf('decode'),
    },
  });
}, 180_000);

afterAll(async () => {
  await envoy?.stop();
  await nginx?.stop();
  await stack?.stop();
});

let count = 0;

/** An id as Envoy makes them, for which it would store the trace decision in one digit. */
const nextId = (): string => `00000000-0000-4000-8000-${String(++count).padStart(12, '0')}`;

/** The legs of a request in the order of their ends, from Envoy's access log. */
const legsOf = (requestId: string, legs: number) =>
  until(`${legs} legs of ${requestId}`, () => {
    const found = envoy.lines(requestId).filter(({ leg }) => leg === 'phase');
    return found.length >= legs ? found : undefined;
  });

async function expectTokenByToken(publicUrl: string): Promise<void> {
  await stack.configure('decode', { itlMs: tokenIntervalMs });
  const body = chatOf('Slowly, please', { stream: true, max_tokens: 12 });
  const answer = await open(publicUrl, { path, requestId: nextId(), body });
  const arrivals: number[] = [];
  for await (const piece of answer.body) {
    const events = eventsOf({ body: piece as Buffer });
    arrivals.push(...events.map(() => performance.now()));
  }
  await stack.configure('decode', { itlMs: 0 });
  expect(arrivals.length).toBeGreaterThanOrEqual(12);
  // Held back, all would come at once at the end.
  const spread = (arrivals.at(-1) ?? 0) - (arrivals[0] ?? 0);
  expect(spread).toBeGreaterThan(8 * tokenIntervalMs);
  const gaps = arrivals.slice(1).map((at, i) => at - (arrivals[i] ?? 0));
  expect(Math.max(...gaps)).toBeLessThan(5 * tokenIntervalMs);
}

async function expectLargeBody(publicUrl: string, legUrl: string): Promise<void> {
  const body = JSON.stringify({
    model: 'sim/model',
    token_ids: Array.from({ length: 64 }, (_, i) => 9000 + count * 100 + i),
    sampling_params: { max_tokens: 2 },
    x_padding: 'padding '.repeat((40 * 1024 * 1024) / 8),
  });
  const question = { path: '/inference/v1/generate', body };
  const requestId = nextId();
  expect((await ask(publicUrl, { ...question, requestId })).status).toBe(200);
  const [record] = await stack.records(requestId, 'decode');
  expect(record?.kv).toMatchObject({ source: 'external' });

  // The coordinator adds the hand-off; without it in between the bytes must be the same.
  const directId = nextId();
  const headers = { 'EPP-Profile': 'decode' };
  await ask(legUrl, { ...question, requestId: directId, headers });
  const [direct] = await stack.records(directId, 'decode');
  expect(direct?.bodySha256).toBe(hash('sha256', body, 'hex'));
}

describe('through the real Envoy', () => {
  it('each leg of a request with two images goes to a worker of its phase, under one id', async () => {
    const requestId = nextId();
    const images = [await drawImage(71), await drawImage(72)];
    const body = chatOf('What is on these?', { images, max_tokens: 8 });
    const answer = await ask(url, { path, requestId, body });
    expect(answer.status).toBe(200);
    expect(answer.headers['x-request-id']).toBe(requestId);
    const legs = await legsOf(requestId, 4);
    expect(legs.map(({ profile, status }) => ({ profile, status }))).toEqual(
      ['encode', 'encode', 'prefill', 'decode'].map((profile) => ({ profile, status: 200 })),
    );
    for (const { profile, upstream } of legs) {
      const pod = stack.pods.find((one) => new URL(one.url).host === upstream);
      expect(pod?.role).toBe(profile);
    }
    const [decode] = await stack.records(requestId, 'decode');
    expect(decode?.kv).toMatchObject({ source: 'external' });
  });

  it.each(['/v1/completions', '/inference/v1/generate'])(
    '%s takes prefill and decode',
    async (api) => {
      const requestId = nextId();
      const prompt = Array.from({ length: 40 }, (_, i) => 1000 + count * 50 + i);
      const body =
        api === '/v1/completions'
          ? { model: 'sim/model', prompt, max_tokens: 4 }
          : { model: 'sim/model', token_ids: prompt, sampling_params: { max_tokens: 4 } };
      expect((await ask(url, { path: api, requestId, body })).status).toBe(200);
      const legs = await legsOf(requestId, 2);
      expect(legs.map(({ profile }) => profile)).toEqual(['prefill', 'decode']);
    },
  );

  it('a stream arrives token by token', () => expectTokenByToken(url));

  it('a body of 40 MB goes through all phases, and is passed byte for byte', () =>
    expectLargeBody(url, internalUrl));

  it.each([
    ['before the first token', false],
    ['in the middle of a stream', true],
  ])('a client that leaves %s ends the leg within a second', async (_when, isMidStream) => {
    const requestId = nextId();
    await stack.configure('decode', isMidStream ? { itlMs: 500 } : { fault: 'hang' });
    const client = new AbortController();
    const body = chatOf(`Leaving ${requestId}`, { stream: true, max_tokens: 200 });
    const end = open(url, { path, requestId, body, signal: client.signal }).then(
      ({ body: answer }) => answer.text(),
    );
    end.catch(() => {});
    await until('decode at work', async () => {
      const [record] = await stack.records(requestId, 'decode');
      const isAtWork = isMidStream ? (record?.outcome.completionTokens ?? 0) >= 2 : record;
      return isAtWork ? true : undefined;
    });
    const leftAt = Date.now();
    client.abort();
    await expect(end).rejects.toThrow();
    const ended = await until('the end of the leg', async () => {
      const [record] = await stack.records(requestId, 'decode');
      return record?.outcome.status === 'aborted' ? record : undefined;
    });
    await stack.configure('decode', { itlMs: 0, fault: '' });
    expect(Date.parse(ended.at) + (ended.ms ?? Infinity) - leftAt).toBeLessThan(abortLimitMs);
    const legs = await legsOf(requestId, 2);
    expect(legs.at(-1)).toMatchObject({ profile: 'decode', flags: expect.stringContaining('DC') });
  });

  it('a client that forges a phase, a pod and a preference still goes through all phases', async () => {
    const requestId = nextId();
    const [pod] = stack.pods.filter(({ role }) => role === 'decode');
    const headers = {
      'EPP-Profile': 'decode',
      'x-gateway-destination-endpoint': new URL(pod?.url ?? '').host,
      'x-prefill-pin-host-port': new URL(pod?.url ?? '').host,
      Prefer: 'if-available',
    };
    const body = chatOf('Straight to decode', { max_tokens: 4 });
    expect((await ask(url, { path, requestId, headers, body })).status).toBe(200);
    const legs = await legsOf(requestId, 2);
    expect(legs.map(({ profile }) => profile)).toEqual(['prefill', 'decode']);
    const records = await stack.records(requestId);
    for (const { headers: received } of records) {
      expect(received).not.toHaveProperty('prefer');
      expect(received).not.toHaveProperty('x-gateway-destination-endpoint');
    }
  });

  it('an error of a worker reaches the client with its status', async () => {
    await stack.configure('decode', { fault: 'status=429' });
    const answer = await ask(url, { path, requestId: nextId(), body: chatOf('Too many') });
    await stack.configure('decode', { fault: '' });
    expect(answer.status).toBe(429);
    expect(JSON.parse(answer.body.toString())).toHaveProperty('error');
  });
});

describe('through the real nginx', () => {
  it('each leg of a request with an image goes to a worker of its phase, whatever phase its client forges', async () => {
    const requestId = nextId();
    const body = chatOf('What is it?', { images: [await drawImage(73)], max_tokens: 4 });
    const headers = { 'EPP-Profile': 'decode', Prefer: 'if-available' };
    const answer = await ask(nginxUrl, { path, requestId, headers, body });
    expect(answer.status).toBe(200);
    expect(answer.headers['x-request-id']).toBe(requestId);
    const records = await stack.records(requestId);
    expect(records.map(({ role }) => role).toSorted()).toEqual(['decode', 'encode', 'prefill']);
  });

  it('a stream arrives token by token', () => expectTokenByToken(nginxUrl));

  it('a body of 40 MB goes through all phases, and is passed byte for byte', () =>
    expectLargeBody(nginxUrl, nginxInternalUrl));

  it('a client that leaves ends the leg', async () => {
    const requestId = nextId();
    await stack.configure('decode', { fault: 'hang' });
    const client = new AbortController();
    const body = chatOf(`Leaving ${requestId}`, { stream: true, max_tokens: 200 });
    const end = ask(nginxUrl, { path, requestId, body, signal: client.signal });
    end.catch(() => {});
    await until('decode at work', async () => (await stack.records(requestId, 'decode'))[0]);
    client.abort();
    await expect(end).rejects.toThrow();
    await until('the end of the leg', async () => {
      const [record] = await stack.records(requestId, 'decode');
      return record?.outcome.status === 'aborted' ? true : undefined;
    });
    await stack.configure('decode', { fault: '' });
  });
});
