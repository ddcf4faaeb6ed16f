import { join } from 'node:path';

import { afterEach, describe, expect, it } from '@jest/globals';
import { scriptedServer, type ScriptedServer } from '@llm-d/testing';
import { Agent, request } from 'undici';

import { type ModelConfig, type UpstreamConfig } from './model-config.ts';
import { type RunningShim, startShim } from './testing.ts';

const CHAT = '/v1/chat/completions/render';
const TEXT = join(import.meta.dirname, 'testdata/qwen3-text');
const hi = [{ role: 'user', content: 'hi' }];
const BMP = `data:image/bmp;base64,${Buffer.from('BM of some kind').toString('base64')}`;
const bitmap = [{ role: 'user', content: [{ type: 'image_url', image_url: { url: BMP } }] }];
const theirs = { token_ids: [7], features: null, model: 'org/theirs' };

const agent = new Agent();
const running: { readonly stop: () => Promise<void> }[] = [];

afterEach(async () => {
  for (const service of running.splice(0).reverse()) await service.stop();
});

async function start(...models: ModelConfig[]): Promise<RunningShim> {
  const shim = await startShim(models);
  running.push({ stop: () => shim.stop() });
  return shim;
}

/** A render server that answers everything in the same way. */
async function renderServer(): Promise<ScriptedServer> {
  const server = await scriptedServer(({ path }) => {
    if (path === '/v1/models') {
      return { json: { data: [{ id: 'org/theirs', root: '/models/t', max_model_len: 99 }] } };
    }
    return path === '/openapi.json' ? { status: 404 } : { json: theirs };
  });
  running.push({ stop: () => server.close() });
  return server;
}

function upstream(ids: readonly string[], ...addresses: string[]): UpstreamConfig {
  return {
    ids,
    addresses,
    model: 'org/theirs',
    normalise: 'light',
    withoutToolChoice: false,
    timeoutMs: 60_000,
    probeMs: 60_000,
    maxAnswerBytes: 1 << 20,
  };
}

const text: ModelConfig = {
  mode: 'embedded',
  profile: { directory: TEXT, servedModelNames: ['text', 'alias'] },
};

async function post(shim: RunningShim, body: object, path = CHAT) {
  const answer = await request(`${shim.url}${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
    dispatcher: agent,
  });
  const json = await answer.body.json();
  return {
    status: answer.statusCode,
    mode: answer.headers['x-render-mode'],
    json,
    headers: answer.headers,
  };
}

async function get(shim: RunningShim, path: string) {
  const answer = await request(`${shim.url}${path}`, { dispatcher: agent });
  return { status: answer.statusCode, text: await answer.body.text() };
}

describe('several models', () => {
  it('are served side by side, each under its names and in its mode', async () => {
    const server = await renderServer();
    const shim = await start(
      text,
      { mode: 'embedded', profile: {} },
      { mode: 'proxy', upstream: upstream(['far'], server.url) },
    );
    expect((await post(shim, { model: 'alias', messages: hi })).json).toMatchObject({
      model: 'alias',
    });
    expect((await post(shim, { model: 'qwen3-vl', messages: hi })).mode).toBe('embedded');
    const far = await post(shim, { model: 'far', messages: hi });
    expect(far).toMatchObject({ mode: 'proxy', json: { ...theirs, model: 'far' } });
    expect(await post(shim, { model: 'none', messages: hi })).toMatchObject({
      status: 404,
      json: {
        error: { message: expect.stringContaining('text, alias, qwen3-vl, sim/model, far') },
      },
    });
    const { data } = JSON.parse((await get(shim, '/v1/models')).text) as { data: unknown[] };
    expect(data).toMatchObject([
      { id: 'text', root: 'text', max_model_len: 40_960 },
      { id: 'alias', root: 'text' },
      { id: 'qwen3-vl' },
      { id: 'sim/model' },
      { id: 'far', root: '/models/t', max_model_len: 99 },
    ]);
  });

  it('may not share a name', async () => {
    await expect(startShim([text, text])).rejects.toThrow(/two models are called text/);
  });

  it('that cannot be loaded end the start', async () => {
    await expect(
      startShim([{ mode: 'embedded', profile: { directory: '/no/such' } }]),
    ).rejects.toThrow(/profile: .*does not exist/);
  });
});

it('refuses other content types with 415 where that is asked for', async () => {
  const strict = await startShim([{ mode: 'embedded', profile: {} }], { strictHttp: true });
  try {
    const { statusCode, body } = await request(`${strict.url}/tokenize`, {
      method: 'POST',
      headers: { 'content-type': 'text/plain' },
      body: '{"prompt":"hi"}',
      dispatcher: agent,
    });
    await body.dump();
    expect(statusCode).toBe(415);
  } finally {
    await strict.stop();
  }
});

describe('proxy mode', () => {
  it('answers what the shim behind it answers, over two hops', async () => {
    const behind = await start({ mode: 'embedded', profile: { servedModelNames: ['org/theirs'] } });
    const front = await start({ mode: 'proxy', upstream: upstream(['mine'], behind.url) });
    const direct = await post(behind, { model: 'org/theirs', messages: hi, request_id: 'r' });
    const proxied = await post(front, { model: 'mine', messages: hi, request_id: 'r' });
    expect(proxied.json).toEqual({ ...(direct.json as object), model: 'mine' });
    expect((await post(front, { prompt: 'hello world' }, '/tokenize')).json).toMatchObject({
      tokens: [14990, 1879],
    });
    expect((await get(front, '/readyz')).status).toBe(200);
    const metrics = (await get(front, '/metrics')).text;
    expect(metrics).toContain(
      'render_upstream_requests_total{model="mine",upstream="0",outcome="served"} 2',
    );
    expect(metrics).toContain('render_upstream_healthy{model="mine",upstream="0"} 1');
    expect(metrics).toContain(
      'render_requests_total{route="chat",mode="proxy",model="mine",code="200"} 1',
    );
  });

  it('is not ready, and says 503 and when to come back, while no upstream is there', async () => {
    const server = await renderServer();
    await server.close();
    const shim = await start({ mode: 'proxy', upstream: upstream(['mine'], server.url) });
    expect((await get(shim, '/readyz')).status).toBe(503);
    expect((await get(shim, '/healthz')).status).toBe(200);
    const { status, headers } = await post(shim, { messages: hi });
    expect([status, headers['retry-after']]).toEqual([503, '1']);
  });

  it('knows the name of its model, and no other', async () => {
    const server = await renderServer();
    const shim = await start({ mode: 'proxy', upstream: upstream(['mine'], server.url) });
    expect((await post(shim, { model: 'mine', messages: hi })).status).toBe(200);
    expect((await post(shim, { messages: hi })).status).toBe(200);
    const calls = server.calls.length;
    expect((await post(shim, { model: 'org/theirs', messages: hi })).status).toBe(404);
    expect(server.calls).toHaveLength(calls);
  });

  it('passes the Anthropic route on', async () => {
    const server = await renderServer();
    const shim = await start({ mode: 'proxy', upstream: upstream(['mine'], server.url) });
    const { status } = await post(shim, { messages: hi }, '/v1/messages/render');
    expect(status).toBe(200);
    expect(server.calls.at(-1)?.path).toBe('/v1/messages/render');
  });

  it('keeps addresses and bodies of upstreams out of answers and logs', async () => {
    const server = await scriptedServer(({ method }) =>
      method === 'POST' ? { status: 500, text: 'their secret' } : {},
    );
    running.push({ stop: () => server.close() });
    const shim = await start({ mode: 'proxy', upstream: upstream(['mine'], server.url) });
    const { status, json } = await post(shim, {
      messages: [{ role: 'user', content: 'my prompt' }],
    });
    expect(status).toBe(502);
    const told = JSON.stringify(json) + shim.log.join('');
    expect(told).toContain('UpstreamError');
    for (const secret of ['their secret', 'my prompt', server.url.slice('http://'.length)]) {
      expect(told).not.toContain(secret);
    }
  });
});

describe('fallback mode', () => {
  it('renders here what it can, and asks vLLM for the rest', async () => {
    const server = await renderServer();
    const shim = await start({
      mode: 'fallback',
      profile: { servedModelNames: ['mine'] },
      upstream: upstream([], server.url),
    });
    expect((await post(shim, { model: 'mine', messages: hi })).mode).toBe('embedded');
    const calls = server.calls.length;
    expect(await post(shim, { model: 'mine', messages: bitmap })).toMatchObject({
      mode: 'proxy',
      json: { ...theirs, model: 'mine' },
    });
    expect(server.calls).toHaveLength(calls + 1);
    // What vLLM would refuse as well is no reason to ask it.
    expect((await post(shim, { model: 'mine', messages: [] })).status).toBe(400);
    expect(server.calls).toHaveLength(calls + 1);
    expect((await post(shim, { messages: hi }, '/v1/messages/render')).mode).toBe('proxy');
  });

  it('leaves everything to vLLM when the profile cannot be loaded here, and says so', async () => {
    const server = await renderServer();
    const shim = await start({
      mode: 'fallback',
      profile: { directory: '/no/such' },
      upstream: upstream(['mine'], server.url),
    });
    expect((await post(shim, { model: 'mine', messages: hi })).mode).toBe('proxy');
    expect(shim.log.join('')).toMatch(/proxy only/);
  });
});
