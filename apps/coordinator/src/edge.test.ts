import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { loadConfig } from '@llm-d/config';
import { type RunningService, startService } from '@llm-d/service';
import { createLogger } from '@llm-d/telemetry';
import { scriptedServer, type ScriptedServer } from '@llm-d/testing';
import { type Coordinator, createApp } from './app.ts';

const megabyte = 1024 * 1024;
const path = '/v1/completions';
const events = 'data: {"n":1}\n\ndata: [DONE]\n\n';

const directory = mkdtempSync(join(tmpdir(), 'edge-'));
const logger = createLogger({ service: 'test', level: 1, destination: { write: () => {} } });
let gateway: ScriptedServer;
let render: ScriptedServer;
let coordinator: Coordinator | undefined;
let running: RunningService;

beforeAll(async () => {
  [gateway, render] = await Promise.all([
    scriptedServer({ json: { choices: [] } }),
    scriptedServer({ status: 400, json: { error: { message: 'SECRET', type: 'x' } } }),
  ]);
});

afterEach(async () => {
  await running.stop();
  await coordinator?.close();
});

afterAll(async () => {
  await Promise.all([gateway.close(), render.close()]);
  rmSync(directory, { recursive: true });
});

async function start(server: object = {}, steps: readonly object[] = []): Promise<void> {
  const file = join(directory, 'coordinator.yaml');
  writeFileSync(
    file,
    JSON.stringify({
      server,
      gateway: { address: gateway.url },
      pipeline: { steps: [...steps, { type: 'decode' }] },
    }),
  );
  coordinator = await createApp({ config: loadConfig({ file }).config, logger });
  running = await startService(coordinator.service, {
    host: '127.0.0.1',
    port: 0,
    logger,
    shutdownTimeoutMs: 1_000,
  });
}

/** A connection that keeps what it receives. */
class RawClient {
  readonly socket: Socket;
  answer = '';
  wasReset = false;

  constructor() {
    this.socket = connect(Number(new URL(running.url).port), '127.0.0.1').setEncoding('latin1');
    this.socket.on('data', (piece: string) => (this.answer += piece));
    this.socket.on('error', () => (this.wasReset = true));
  }

  /** Sends pieces at the server's pace, until it has no more or the server closes. */
  async send(pieces: Iterable<string | Buffer>): Promise<void> {
    const closed = once(this.socket, 'close');
    for (const piece of pieces) {
      if (this.socket.destroyed || !this.socket.writable) return;
      if (!this.socket.write(piece)) await Promise.race([once(this.socket, 'drain'), closed]);
    }
  }

  /** Everything that came, once the server has closed the connection. */
  async all(): Promise<{ head: string; body: string }> {
    if (!this.socket.closed) await once(this.socket, 'close');
    const end = this.answer.indexOf('\r\n\r\n');
    return { head: this.answer.slice(0, end), body: this.answer.slice(end + 4) };
  }
}

const headOf = (...lines: string[]): string => ['host: x', ...lines, '', ''].join('\r\n');
const post = (...lines: string[]): string => `POST ${path} HTTP/1.1\r\n${headOf(...lines)}`;

/** A completions request of exactly so many bytes. */
function bodyOf(bytes: number): Buffer {
  const body = Buffer.alloc(bytes, 'x');
  body.write('{"model":"m","prompt":"');
  body.write('"}', bytes - 2);
  return body;
}

/** The body in chunks of 64 KiB, as `Transfer-Encoding: chunked` has them. */
function* chunksOf(body: Buffer): Iterable<string | Buffer> {
  for (let i = 0; i < body.length; i += 65_536) {
    const chunk = body.subarray(i, i + 65_536);
    yield `${chunk.length.toString(16)}\r\n`;
    yield chunk;
    yield '\r\n';
  }
  yield '0\r\n\r\n';
}

describe('C18: a body', () => {
  it('in chunks that is longer than the limit gets a 413 that the client can read', async () => {
    await start();
    const before = gateway.calls.length;
    const client = new RawClient();
    await client.send([post('transfer-encoding: chunked'), ...chunksOf(bodyOf(65 * megabyte))]);
    const { head, body } = await client.all();
    expect(head).toMatch(/^HTTP\/1.1 413 /);
    expect(head).toContain('connection: close');
    expect(JSON.parse(body)).toMatchObject({ error: { code: 'REQUEST_TOO_LARGE' } });
    expect(client.wasReset).toBe(false);
    expect(gateway.calls).toHaveLength(before);
  });

  it.each([
    { name: 'in chunks', framing: 'transfer-encoding: chunked' },
    { name: 'with its length', framing: `content-length: ${megabyte}` },
  ])('of exactly the limit passes $name', async ({ framing }) => {
    await start({ max_request_body_size: 1 });
    const index = gateway.calls.length;
    const client = new RawClient();
    const whole = bodyOf(megabyte);
    const isChunked = framing.startsWith('transfer');
    await client.send([
      post('connection: close', framing),
      ...(isChunked ? chunksOf(whole) : [whole]),
    ]);
    expect((await client.all()).head).toMatch(/^HTTP\/1.1 200 /);
    // The step adds a member before the closing brace.
    const { body } = await gateway.received(index);
    expect(body.subarray(0, whole.length - 1).equals(whole.subarray(0, -1))).toBe(true);
  });

  it('that waits for 100 and is too long gets 413 without it', async () => {
    await start();
    const client = new RawClient();
    await client.send([post('expect: 100-continue', `content-length: ${65 * megabyte}`)]);
    while (!client.answer.includes('}}')) await once(client.socket, 'data');
    expect(client.answer).toMatch(/^HTTP\/1.1 413 /);
    client.socket.destroy();
  });

  it('that waits for 100 gets it, and is served', async () => {
    await start();
    const client = new RawClient();
    const body = bodyOf(100);
    const lines = ['expect: 100-continue', 'connection: close', `content-length: ${body.length}`];
    await client.send([post(...lines)]);
    await once(client.socket, 'data');
    expect(client.answer).toBe('HTTP/1.1 100 Continue\r\n\r\n');
    await client.send([body]);
    expect((await client.all()).body).toMatch(/^HTTP\/1.1 200 /);
  });

  it('that stalls at half ends at the read timeout with 408', async () => {
    await start({ read_timeout: '300ms' });
    const client = new RawClient();
    await client.send([post('content-length: 100'), bodyOf(100).subarray(0, 50)]);
    const { head, body } = await client.all();
    expect(head).toMatch(/^HTTP\/1.1 408 /);
    expect(JSON.parse(body)).toMatchObject({ error: { code: 'REQUEST_TIMEOUT' } });
  });
});

describe('C19: a body that is no JSON object', () => {
  it.each([
    { name: 'nothing', body: '' },
    ...['null', '[]', '"x"', '7', '{"model":', '{} {}', '{"model":"m"}x'].map((body) => ({
      name: body,
      body,
    })),
    { name: 'an object behind a byte order mark', body: '\ufeff{"model":"m","prompt":"x"}' },
    {
      name: 'lists 100,000 deep',
      body: `{"model":"m","messages":${'['.repeat(100_000)}${']'.repeat(100_000)}}`,
    },
    {
      name: 'fields of the wrong type',
      body: '{"model":1,"messages":"x"}',
      isRefusedByRender: true,
    },
  ])('($name) is 400 as an OpenAI error, and no leg is called', async (row) => {
    await start({}, [{ type: 'render', params: { address: render.url } }]);
    const before = gateway.calls.length;
    const response = await fetch(`${running.url}/v1/chat/completions`, {
      method: 'POST',
      body: Buffer.from(row.body),
    });
    const text = await response.text();
    expect({ status: response.status, text }).toEqual({ status: 400, text });
    expect(response.headers.get('content-type')).toBe('application/json');
    expect(JSON.parse(text)).toMatchObject({
      error: {
        type: 'invalid_request_error',
        code: 'isRefusedByRender' in row ? 'UPSTREAM_ERROR' : 'BAD_REQUEST',
        param: null,
        message: expect.stringMatching(/./),
      },
    });
    expect(text).not.toMatch(/SECRET|\bat \w+ \(|node_modules|\.ts:/);
    expect(gateway.calls).toHaveLength(before);
  });

  it('is told that it is empty when it is', async () => {
    await start();
    const response = await fetch(running.url + path, { method: 'POST' });
    expect(await response.text()).toContain('"the request body is empty (request_id: ');
  });

  it('is served when it is one and says that it is text', async () => {
    await start();
    const response = await fetch(running.url + path, {
      method: 'POST',
      headers: { 'content-type': 'text/plain' },
      body: '{"model":"m","prompt":"x"}',
    });
    expect(response.status).toBe(200);
    await response.text();
  });
});

describe('old and odd clients', () => {
  const body = '{"model":"m","prompt":"x","stream":true}';
  const stream = { headers: { 'content-type': 'text/event-stream' }, chunks: [events] };

  it('HTTP/1.0: gets a stream without chunks that ends with the connection', async () => {
    gateway.play(stream);
    await start();
    const client = new RawClient();
    const head = headOf(`content-length: ${body.length}`);
    await client.send([`POST ${path} HTTP/1.0\r\n${head}${body}`]);
    const answer = await client.all();
    expect(answer.head).toMatch(/^HTTP\/1.1 200 /);
    expect(answer.head).not.toMatch(/transfer-encoding/i);
    expect(answer.body).toBe(events);
  });

  it('an upgrade to h2c is ignored, the request is served', async () => {
    gateway.play(stream);
    await start();
    const client = new RawClient();
    const upgrade = ['connection: Upgrade, HTTP2-Settings', 'upgrade: h2c', 'http2-settings: AAMA'];
    await client.send([post(...upgrade, `content-length: ${body.length}`), body]);
    while (!client.answer.endsWith('0\r\n\r\n')) await once(client.socket, 'data');
    expect(client.answer).toMatch(/^HTTP\/1.1 200 /);
    expect(client.answer).toContain('[DONE]');
    const { headers } = gateway.calls.at(-1) ?? {};
    expect(headers).not.toHaveProperty('upgrade');
    expect(headers).not.toHaveProperty('http2-settings');
    client.socket.destroy();
  });

  it.each(['/v1/completions/', '//v1/completions', '//v1//completions/'])(
    '%s is served',
    async (odd) => {
      gateway.play({ json: { choices: [] } });
      await start();
      const response = await fetch(running.url + odd, { method: 'POST', body });
      expect(response.status).toBe(200);
      await response.text();
      expect(gateway.calls.at(-1)?.path).toBe(path);
    },
  );

  it.each(['/healthz', '/health', '/readyz', '/readyz/', '//healthz'])(
    'HEAD %s is 200 without a body',
    async (probe) => {
      await start();
      const response = await fetch(running.url + probe, { method: 'HEAD' });
      expect({ status: response.status, text: await response.text() }).toEqual({
        status: 200,
        text: '',
      });
    },
  );
});

describe('admission', () => {
  it('tells the pipeline how long a request waited, and counts what it turned away', async () => {
    let goOn: () => void = () => {};
    const wait = new Promise<void>((resolve) => (goOn = resolve));
    gateway.play([{ delay: wait, json: {} }, { json: {} }]);
    const index = gateway.calls.length;
    await start({ max_concurrent_requests: 1, max_queued_requests: 1 });
    const admission = coordinator?.admission;
    const ask = () => fetch(running.url + path, { method: 'POST', body: '{"model":"m"}' });
    const first = ask();
    await gateway.received(index);
    const second = ask();
    while (admission?.queued !== 1) await new Promise(setImmediate);
    const third = await ask();
    expect(third.status).toBe(429);
    expect(third.headers.get('retry-after')).toBe('1');
    expect(await third.json()).toMatchObject({
      error: { code: 'TOO_MANY_REQUESTS', type: 'rate_limit_error' },
    });
    expect(admission.refused).toEqual({ queue_full: 1, queue_timeout: 0, body_bytes: 0 });
    goOn();
    for (const response of [await first, await second]) {
      expect(response.status).toBe(200);
      await response.text();
    }
    while (admission.running > 0) await new Promise(setImmediate);
    expect(admission.bodyBytesHeld).toBe(0);
  });

  it('tells requests that wait when the process has to go', async () => {
    gateway.play({ beforeHeaders: 'hang' });
    const index = gateway.calls.length;
    await start({ max_concurrent_requests: 1, max_queued_requests: 1 });
    const ask = () => fetch(running.url + path, { method: 'POST', body: '{"model":"m"}' });
    const asked = [ask(), ask()];
    await gateway.received(index);
    while (coordinator?.admission.queued !== 1) await new Promise(setImmediate);
    expect(await running.stop()).toBe(true);
    for (const response of await Promise.all(asked)) {
      expect(response.status).toBe(503);
      expect(await response.json()).toMatchObject({ error: { code: 'SHUTTING_DOWN' } });
    }
    expect(gateway.calls).toHaveLength(index + 1);
  });
});
