import { once } from 'node:events';
import {
  type ClientRequest,
  createServer,
  type IncomingMessage,
  request as httpRequest,
  type RequestOptions,
} from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { loadConfig } from '@llm-d/config';
import { type RunningService, startService } from '@llm-d/service';
import { createLogger } from '@llm-d/telemetry';
import { type ScriptedServer, scriptedServer } from '@llm-d/testing';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Coordinator, createApp } from './app.ts';

const mb = 1_048_576;

let directory: string;
let lines: Record<string, unknown>[];
let gateway: ScriptedServer;
let coordinator: Coordinator | undefined;
let running: RunningService;

beforeEach(async () => {
  directory = mkdtempSync(join(tmpdir(), 'coordinator-'));
  lines = [];
  gateway = await scriptedServer();
});

afterEach(async () => {
  await running.stop();
  await coordinator?.close();
  await gateway.close();
  rmSync(directory, { recursive: true });
});

/** Starts a coordinator with a body limit of 1 MB. */
async function start(
  options: {
    server?: Record<string, unknown>;
    pipeline?: Record<string, unknown>;
    address?: string;
    shutdownTimeoutMs?: number;
  } = {},
): Promise<void> {
  const { server, pipeline, address = gateway.url, shutdownTimeoutMs = 5_000 } = options;
  const file = join(directory, 'coordinator.yaml');
  const steps = [{ type: 'decode' }];
  writeFileSync(
    file,
    JSON.stringify({
      server: { max_request_body_size: 1, ...server },
      gateway: { address },
      pipeline: { steps, ...pipeline },
    }),
  );
  const logger = createLogger({
    service: 'test',
    level: 2,
    destination: { write: (line) => lines.push(JSON.parse(line) as Record<string, unknown>) },
  });
  coordinator = await createApp({ config: loadConfig({ file }).config, logger });
  running = await startService(coordinator.service, {
    host: '127.0.0.1',
    port: 0,
    logger,
    shutdownTimeoutMs,
  });
}

/** Begins a call; the caller ends it. */
function open(method: string, path: string, headers: RequestOptions['headers'] = {}) {
  const call = httpRequest(running.url + path, { method, headers, agent: false });
  const response = once(call, 'response').then(([message]) => message as IncomingMessage);
  return { call, response };
}

async function read(response: Promise<IncomingMessage>) {
  const message = await response;
  let text = '';
  for await (const piece of message.setEncoding('utf8')) text += String(piece);
  return { status: message.statusCode, headers: message.headers, text };
}

async function send(
  method: string,
  path: string,
  body?: string | Buffer,
  headers?: RequestOptions['headers'],
) {
  const { call, response } = open(method, path, headers);
  call.end(body);
  return read(response);
}

const errorOf = (text: string): unknown => (JSON.parse(text) as { error: unknown }).error;

/** The `request` line of the log, once it is written. */
async function summary(): Promise<Record<string, unknown>> {
  for (;;) {
    const line = lines.find(({ msg }) => msg === 'request');
    if (line) return line;
    await nextTurn();
  }
}

const upload = { 'content-type': 'application/octet-stream' };

describe('a path without a route', () => {
  it.each(['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'])(
    'is served by a decode pod: %s',
    async (method) => {
      await start();
      gateway.play({ status: 202, text: 'taken', headers: { 'x-pod': 'p' } });
      const headers = {
        'x-request-id': 'id-1',
        'epp-profile': 'encode',
        'x-llm-d-pin-host-port': 'p',
      };
      const result = await send(method, '/v1/other?x=1&y=%2F', undefined, headers);
      expect(result).toMatchObject({ status: 202, text: 'taken' });
      expect(result.headers).toMatchObject({ 'x-pod': 'p', 'x-request-id': 'id-1' });
      expect(gateway.calls).toMatchObject([
        { method, path: '/v1/other?x=1&y=%2F', headers: { 'epp-profile': ['decode'] } },
      ]);
      const sent = gateway.calls[0]?.headers ?? {};
      expect(sent).toMatchObject({ 'x-request-id': ['id-1'] });
      expect(sent['x-llm-d-revision-decision-id']?.[0]).toMatch(/^[0-9a-f-]{36}$/);
      expect(sent['x-llm-d-pin-host-port']).toBeUndefined();
    },
  );

  it('may be asked for by HEAD', async () => {
    await start();
    gateway.play({ headers: { 'content-length': '7' } });
    const result = await send('HEAD', '/v1/models');
    expect(result.headers['content-length']).toBe('7');
    expect(gateway.calls[0]?.method).toBe('HEAD');
  });

  it.each([
    '//v1/chat/completions',
    '/v1/chat/completions/',
    '/v1/ch%61t/completions',
    '/healthz/',
  ])('is not one with a route in another spelling: %s', async (path) => {
    await start();
    expect(await send('PATCH', path)).toMatchObject({ status: 405 });
    expect(gateway.calls).toEqual([]);
  });

  it('is 404 when passthrough is off', async () => {
    await start({ pipeline: { passthrough: false } });
    const { status, text } = await send('GET', '/v1/models');
    expect(status).toBe(404);
    expect(errorOf(text)).toMatchObject({ code: 'UNKNOWN_PATH' });
    expect(gateway.calls).toEqual([]);
  });

  it('leaves one line in the log, without its query', async () => {
    await start();
    gateway.play({ text: '12345' });
    await send('POST', '/v1/other?key=SECRET', 'abc', upload);
    expect(await summary()).toMatchObject({
      path: '/v1/other',
      outcome: 'served',
      status: 200,
      request_bytes: 3,
      response_bytes: 5,
    });
    expect(JSON.stringify(lines)).not.toContain('SECRET');
  });

  it('tells in that line how long it waited for its turn', async () => {
    await start({ server: { max_concurrent_requests: 1, max_queued_requests: 1 } });
    const goOn = Promise.withResolvers<void>();
    gateway.play([{ delay: goOn.promise, text: '1' }, { text: '2' }]);
    const first = send('GET', '/v1/models/a');
    await gateway.received(0);
    const second = send('GET', '/v1/models/b');
    while (coordinator?.admission.queued !== 1) await nextTurn();
    goOn.resolve();
    await Promise.all([first, second]);
    const waitOf = (path: string) => lines.find((line) => line['path'] === path)?.['queue_ms'];
    while (waitOf('/v1/models/b') === undefined) await nextTurn();
    expect(waitOf('/v1/models/a')).toBe(0);
    expect(waitOf('/v1/models/b')).toBeGreaterThan(0);
  });
});

describe('its body', () => {
  it('goes on with its content type, JSON without transfer params', async () => {
    await start();
    const type = { 'content-type': 'application/json; charset=utf-8' };
    await send('POST', '/v1/embeddings', '{"a":1.0,"kv_transfer_params":{}, "b":2}', type);
    expect(gateway.calls[0]?.body.toString()).toBe('{"a":1.0,"b":2}');
    expect(gateway.calls[0]?.headers['content-type']).toEqual([type['content-type']]);
  });

  it('goes on packed as it came', async () => {
    await start();
    const packed = gzipSync('{"kv_transfer_params":{}}');
    await send('POST', '/v1/x', packed, {
      'content-type': 'application/json',
      'content-encoding': 'gzip',
    });
    expect(gateway.calls[0]?.body.equals(packed)).toBe(true);
    expect(gateway.calls[0]?.headers['content-encoding']).toEqual(['gzip']);
  });

  it('goes on while it arrives', async () => {
    await start();
    const { call, response } = open('POST', '/v1/files', upload);
    call.write('one');
    const leg = await gateway.arrived(0);
    while (leg.body.length < 3) await nextTurn();
    call.end('two');
    expect((await read(response)).status).toBe(200);
    expect(leg.body.toString()).toBe('onetwo');
  });

  it.each([
    { name: 'JSON', headers: { 'content-type': 'application/json' } },
    { name: 'other', headers: upload },
    { name: 'other with its length', headers: { ...upload, 'content-length': mb } },
  ])('may have exactly the limit: $name', async ({ headers }) => {
    await start();
    const result = await send('POST', '/v1/files', Buffer.alloc(mb, '1'), headers);
    expect(result.status).toBe(200);
    expect(gateway.calls[0]?.body.length).toBe(mb);
  });

  it.each([
    { name: 'JSON', headers: { 'content-type': 'application/json' } },
    { name: 'by its length', headers: { ...upload, 'content-length': mb + 1 } },
    { name: 'in chunks', headers: { ...upload, 'transfer-encoding': 'chunked' } },
  ])('over the limit is 413, and no pod takes it for whole: $name', async ({ headers }) => {
    await start();
    const { status, text } = await send('POST', '/v1/files', Buffer.alloc(mb + 1), headers);
    expect(status).toBe(413);
    expect(errorOf(text)).toMatchObject({ code: 'REQUEST_TOO_LARGE', step: 'passthrough' });
    await Promise.all(gateway.calls.map(({ ended }) => ended));
    expect(gateway.calls.every(({ aborted }) => aborted)).toBe(true);
  });

  it('is invited by 100-continue', async () => {
    await start();
    const { call, response } = open('POST', '/v1/x', { ...upload, expect: '100-continue' });
    call.flushHeaders();
    await once(call, 'continue');
    call.end('abc');
    expect((await read(response)).status).toBe(200);
    expect(gateway.calls[0]?.headers['expect']).toBeUndefined();
  });

  it('that stalls is 408', async () => {
    await start({ server: { read_timeout: '200ms' } });
    const { call, response } = open('POST', '/v1/x', upload);
    call.on('error', () => {}).write('abc');
    const { status, text } = await read(response);
    expect(status).toBe(408);
    expect(errorOf(text)).toMatchObject({ code: 'REQUEST_TIMEOUT' });
    await gateway.calls[0]?.ended;
    expect(gateway.calls[0]?.aborted).toBe(true);
  });

  it('need not be read by the pod: the connection serves the next request', async () => {
    const early = createServer((_request, response) => {
      response.writeHead(401, { 'content-length': '5' }).end('early');
    });
    early.listen(0, '127.0.0.1');
    await once(early, 'listening');
    await start({ address: `http://127.0.0.1:${(early.address() as AddressInfo).port}` });
    const socket = connect(Number(new URL(running.url).port), '127.0.0.1');
    let answers = '';
    socket.setEncoding('utf8').on('data', (piece: string) => (answers += piece));
    const head = 'POST /v1/x HTTP/1.1\r\nhost: x\r\ncontent-type: a/b\r\n';
    socket.write(`${head}content-length: 600001\r\n\r\nx`);
    while (!answers.includes('early')) await nextTurn();
    socket.write(Buffer.alloc(600_000));
    socket.write('GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n');
    await once(socket, 'close');
    expect(answers.match(/HTTP\/1.1 \d+/g)).toEqual(['HTTP/1.1 401', 'HTTP/1.1 200']);
    early.closeAllConnections();
    early.close();
    await once(early, 'close');
  });

  it.each([
    // The other direction may still be open.
    { name: 'closes', leave: (call: ClientRequest) => call.destroy(), status: 400 },
    { name: 'resets', leave: (call: ClientRequest) => call.socket?.resetAndDestroy(), status: 499 },
  ])('is cut off at the pod when the client $name', async ({ leave, status }) => {
    await start();
    const { call, response } = open('POST', '/v1/files', upload);
    const gone = expect(response).rejects.toMatchObject({ code: 'ECONNRESET' });
    call.write('one');
    const leg = await gateway.arrived(0);
    leave(call);
    await gone;
    await leg.ended;
    expect(leg.aborted).toBe(true);
    expect(await summary()).toMatchObject({ status });
    expect(lines.filter(({ level }) => level === 'error')).toEqual([]);
  });
});

describe('its answer', () => {
  it('is flushed piece by piece, even with a length', async () => {
    await start();
    const gate = Promise.withResolvers<void>();
    gateway.play({
      headers: { 'content-length': '6' },
      chunks: ['one', { wait: gate.promise }, 'two'],
    });
    const { call, response } = open('GET', '/v1/x');
    call.end();
    const message = await response;
    const [first] = (await once(message.setEncoding('utf8'), 'data')) as [string];
    expect(first).toBe('one');
    gate.resolve();
    let rest = '';
    for await (const piece of message) rest += String(piece);
    expect(rest).toBe('two');
  });

  it('has no limit for the whole of it', async () => {
    await start({ server: { write_timeout: '50ms' } });
    gateway.play({ chunks: ['one', { wait: 150 }, 'two'] });
    expect((await send('GET', '/v1/x')).text).toBe('onetwo');
  });

  it('is 502 when there is no gateway', async () => {
    const { url } = gateway;
    await gateway.close();
    await start({ address: url });
    const { status, headers, text } = await send('GET', '/v1/models', undefined, {
      'x-request-id': 'id-1',
    });
    expect({ status, id: headers['x-request-id'] }).toEqual({ status: 502, id: 'id-1' });
    expect(errorOf(text)).toMatchObject({ code: 'UPSTREAM_UNREACHABLE', step: 'passthrough' });
    expect(text).not.toContain(new URL(url).port);
    expect(await summary()).toMatchObject({ outcome: 'failed', status: 502 });
  });

  it('that breaks off after its start is cut, and the log says so', async () => {
    await start();
    gateway.play({ chunks: ['half', { wait: 20 }, { end: 'reset' }] });
    await expect(send('GET', '/v1/x')).rejects.toThrow('aborted');
    expect(await summary()).toMatchObject({ outcome: 'failed', code: 'RESPONSE_STARTED' });
    expect(lines.filter(({ level }) => level === 'error')).toHaveLength(1);
  });

  it('is 503 when the process has to go', async () => {
    await start({ shutdownTimeoutMs: 50 });
    gateway.play({ beforeHeaders: 'hang' });
    const answered = send('POST', '/v1/x', 'abc', upload);
    await gateway.received(0);
    expect(await running.stop()).toBe(true);
    const { status, text } = await answered;
    expect(status).toBe(503);
    expect(errorOf(text)).toMatchObject({ code: 'SHUTTING_DOWN' });
  });
});
