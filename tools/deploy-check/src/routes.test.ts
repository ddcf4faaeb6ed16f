import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { type Gateway, startGateway, strippedOnPublic } from '@llm-d/gateway-sim';
import { freePorts } from '@llm-d/local-stack';
import { type ScriptedServer, scriptedServer } from '@llm-d/testing';
import { Client, request } from 'undici';
import { onLoopback, readEnvoyConfig } from './envoy-config.ts';
import { type EnvoyProcess, startEnvoy } from './start-envoy.ts';
import { type NginxProcess, startNginx } from './start-nginx.ts';

const targets = ['coordinator', 'encode', 'prefill', 'decode'] as const;
type Target = (typeof targets)[number];

const gateways = ['gateway-sim', 'Envoy', 'nginx'] as const;

interface Case {
  readonly listener: 'public' | 'internal';
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Who answers, or the status of the gateway's own answer. */
  readonly gives: Target | number;
  /** Where one of the others differs. */
  readonly envoyGives?: Target | number;
  readonly nginxGives?: Target | number;
}

const chat = '/v1/chat/completions';
const forged = Object.fromEntries(strippedOnPublic.map((name) => [name, 'decode']));

/** What is sent where, the same for gateway-sim, the Envoy of deploy/envoy/envoy.yaml and the nginx of deploy/nginx. */
const cases: readonly Case[] = [
  { listener: 'public', path: chat, gives: 'coordinator' },
  { listener: 'public', path: `${chat}/`, gives: 'coordinator' },
  { listener: 'public', path: `${chat}?a=/v1/other`, gives: 'coordinator' },
  { listener: 'public', path: '/v1/completions', gives: 'coordinator' },
  { listener: 'public', path: '/v1/responses', gives: 'coordinator' },
  { listener: 'public', path: '/v1/models', gives: 'coordinator' },
  { listener: 'public', path: '/inference/v1/generate', gives: 'coordinator' },
  { listener: 'public', path: '/v1/requests/one', gives: 'coordinator' },
  { listener: 'public', path: '/v1/requests', gives: 404 },
  { listener: 'public', path: '/v1/requests/one/two', gives: 404 },
  { listener: 'public', path: '/v1/embeddings', gives: 404 },
  { listener: 'public', path: '/metrics', gives: 404 },
  { listener: 'public', path: '/', gives: 404 },
  { listener: 'public', path: '/v1/chat/completions/render', gives: 404 },
  { listener: 'public', path: chat, headers: { 'EPP-Profile': 'decode' }, gives: 'coordinator' },
  { listener: 'public', path: chat, headers: forged, gives: 'coordinator' },
  { listener: 'internal', path: chat, headers: { 'EPP-Profile': 'encode' }, gives: 'encode' },
  { listener: 'internal', path: chat, headers: { 'EPP-Profile': 'prefill' }, gives: 'prefill' },
  { listener: 'internal', path: chat, headers: { 'EPP-Profile': 'decode' }, gives: 'decode' },
  { listener: 'internal', path: chat, headers: { 'epp-profile': 'prefill' }, gives: 'prefill' },
  {
    listener: 'internal',
    path: '/inference/v1/generate',
    headers: { 'EPP-Profile': 'encode' },
    gives: 'encode',
  },
  {
    listener: 'internal',
    path: '/v1/other',
    headers: { 'EPP-Profile': 'decode' },
    gives: 'decode',
  },
  { listener: 'internal', path: chat, headers: { 'EPP-Profile': 'Decode' }, gives: 429 },
  { listener: 'internal', path: chat, headers: { 'EPP-Profile': 'other' }, gives: 429 },
  // A picker runs its default profile.
  {
    listener: 'internal',
    path: chat,
    headers: { 'EPP-Profile': '' },
    gives: 'decode',
    envoyGives: 429,
    nginxGives: 404,
  },
  { listener: 'internal', path: chat, gives: 404 },
  { listener: 'internal', path: '/v1/requests/one', gives: 404 },
];

let peers: Record<Target, ScriptedServer>;
let envoy: EnvoyProcess;
let gateway: Gateway;
let nginx: NginxProcess;
let urls: Record<(typeof gateways)[number], Record<Case['listener'], string>>;

beforeAll(async () => {
  const servers = await Promise.all(
    targets.map(async (name) => [name, await scriptedServer({ text: name })] as const),
  );
  peers = Object.fromEntries(servers) as Record<Target, ScriptedServer>;
  const [admin = 0, publicPort = 0, internal = 0, stats = 0] = await freePorts(4);
  const hosts = servers.map(([name, { url }]) => [name, [new URL(url).host]] as const);
  const config = onLoopback(readEnvoyConfig('deploy/envoy/envoy.yaml'), {
    admin,
    listeners: { public: publicPort, internal, stats },
    clusters: Object.fromEntries(hosts),
  });
  envoy = await startEnvoy(config, stats);
  const [nginxPublic = 0, nginxInternal = 0] = await freePorts(2);
  nginx = await startNginx({
    ports: { public: nginxPublic, internal: nginxInternal },
    upstreams: Object.fromEntries(hosts),
  });
  gateway = await startGateway({
    coordinator: peers.coordinator.url,
    endpoints: targets.slice(1).map((role) => ({
      name: role,
      address: '127.0.0.1',
      port: Number(new URL(peers[role].url).port),
      labels: { 'llm-d.ai/role': role },
    })),
  });
  urls = {
    'gateway-sim': { public: gateway.publicUrl, internal: gateway.internalUrl },
    Envoy: {
      public: `http://127.0.0.1:${publicPort}`,
      internal: `http://127.0.0.1:${internal}`,
    },
    nginx: {
      public: `http://127.0.0.1:${nginxPublic}`,
      internal: `http://127.0.0.1:${nginxInternal}`,
    },
  };
}, 180_000);

afterAll(async () => {
  await envoy?.stop();
  await nginx?.stop();
  await gateway?.close();
  await Promise.all(Object.values(peers).map((peer) => peer.close()));
});

// For every path: gateway-sim looks for a prompt.
const body = JSON.stringify({
  model: 'm',
  messages: [{ role: 'user', content: 'hello' }],
  token_ids: [1],
});

async function targetOf(url: string, headers: Readonly<Record<string, string>> = {}) {
  const answer = await request(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body,
  });
  const text = await answer.body.text();
  return answer.statusCode === 200 ? text : answer.statusCode;
}

/** Of the last call that a client made; Envoy's health checks are in between. */
const lastHeaders = () =>
  peers.coordinator.calls.findLast(({ method }) => method === 'POST')?.headers;

describe.each(gateways)('%s', (name) => {
  it.each(cases)(
    '$listener $path with $headers goes to $gives',
    async ({ listener, path, headers, gives, envoyGives = gives, nginxGives = gives }) => {
      const target = await targetOf(urls[name][listener] + path, headers);
      expect(target).toBe({ 'gateway-sim': gives, Envoy: envoyGives, nginx: nginxGives }[name]);
    },
  );

  it('hands no header to the coordinator with which a client plays a phase or chooses a pod', async () => {
    await targetOf(urls[name].public + chat, { ...forged, 'x-mine': 'kept' });
    const last = lastHeaders();
    expect(last).toHaveProperty('x-mine', ['kept']);
    for (const header of strippedOnPublic) expect(last).not.toHaveProperty(header);
  });

  it('hands an id of the client on unchanged, and makes one where there is none', async () => {
    const id = '3f2b1c9e-1111-4aaa-8bbb-123456789abc';
    await targetOf(urls[name].public + chat, { 'x-request-id': id });
    expect(lastHeaders()?.['x-request-id']).toEqual([id]);
    await targetOf(urls[name].public + chat);
    expect(lastHeaders()?.['x-request-id']?.[0]).toMatch(/^[\da-f-]{36}$/);
  });
});

describe('Envoy alone', () => {
  it.each([
    ['a header with an underscore', chat, { x_request_id: 'a' }, 400],
    ['an escaped slash', '/v1%2Fchat/completions', {}, 400],
  ])('refuses %s on the public listener', async (_name, path, headers, status) => {
    expect(await targetOf(urls.Envoy.public + path, headers)).toBe(status);
  });

  it.each(['/v1//chat/completions', '/v1/x/../chat/completions'])(
    'reads %s as the path that it means',
    async (path) => {
      const client = new Client(urls.Envoy.public);
      const answer = await client.request({ path, method: 'POST', body });
      expect(await answer.body.text()).toBe('coordinator');
      await client.close();
    },
  );

  it('writes who served a leg into its access log', async () => {
    const id = 'b7e4d9aa-2222-4bbb-9ccc-abcdefabcdef';
    await targetOf(urls.Envoy.internal + chat, { 'EPP-Profile': 'prefill', 'x-request-id': id });
    const end = performance.now() + 5000;
    while (envoy.lines(id).length === 0 && performance.now() < end) {
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    expect(envoy.lines(id)).toEqual([
      expect.objectContaining({
        leg: 'phase',
        profile: 'prefill',
        upstream: new URL(peers.prefill.url).host,
        path: chat,
        status: 200,
      }),
    ]);
  });
});
