import { once } from 'node:events';
import { mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { request as httpsRequest } from 'node:https';
import { connect as connectPlain, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect, type ConnectionOptions, getCiphers, type TLSSocket } from 'node:tls';
import { Controller, Get, Module, Res } from '@nestjs/common';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { createLogger } from '@llm-d/telemetry';
import { type FastifyReply } from 'fastify';
import { generate } from 'selfsigned';
import { createService } from './create-service.ts';
import { HttpSink } from './http-sink.ts';
import { type RunningService, startService } from './run-service.ts';
import { ServerTls, type TlsSettings } from './server-tls.ts';
import { tlsOptions } from './tls-options.ts';

@Controller()
class CutController {
  /** An answer whose end the client of HTTP/1.0 can only know from the connection. */
  @Get('/cut')
  cut(@Res() reply: FastifyReply): void {
    reply.hijack();
    const sink = new HttpSink(reply.raw, 'id-1');
    sink.start(200, []);
    sink.write(Buffer.from('half'));
    sink.abort();
  }
}

@Module({ controllers: [CutController] })
class CutModule {}

const lines: string[] = [];
const logger = createLogger({
  service: 'test',
  level: 2,
  destination: { write: (line) => lines.push(line) },
});
let directory: string;
let running: RunningService | undefined;

beforeEach(() => {
  lines.length = 0;
  directory = mkdtempSync(join(tmpdir(), 'tls-'));
});

afterEach(async () => {
  await running?.stop();
  running = undefined;
  rmSync(directory, { recursive: true });
});

async function start(settings?: Partial<TlsSettings>, readTimeoutMs = 30_000): Promise<number> {
  const tls = settings && (await ServerTls.load({ certificatePath: '', ...settings }, logger));
  const app = await createService({
    module: CutModule,
    logger,
    bodyLimitBytes: 1024,
    readTimeoutMs,
    tls,
  });
  running = await startService(app, { logger, host: '127.0.0.1', port: 0, shutdownTimeoutMs: 300 });
  return Number(new URL(running.url).port);
}

/** Connects and resolves when the handshake is over; rejects when it fails. */
async function handshake(port: number, options: ConnectionOptions = {}): Promise<TLSSocket> {
  const socket = connect({ port, host: '127.0.0.1', rejectUnauthorized: false, ...options });
  await once(socket, 'secureConnect');
  return socket;
}

/** The name on the certificate that the server shows. */
async function shownName(port: number): Promise<string> {
  const socket = await handshake(port);
  const name = socket.getPeerCertificate().subject.CN;
  socket.destroy();
  return String(name);
}

/** Waits until the server shows another certificate; the files are looked at every second. */
async function shownAfterChange(port: number, before: string): Promise<string> {
  for (;;) {
    const name = await shownName(port);
    if (name !== before) return name;
    await sleep(50);
  }
}

async function get(port: number, path: string): Promise<{ status: number; text: string }> {
  const call = httpsRequest({
    port,
    host: '127.0.0.1',
    path,
    rejectUnauthorized: false,
    agent: false,
  });
  const [response] = (await once(call.end(), 'response')) as [AsyncIterable<Buffer> & object];
  let text = '';
  for await (const piece of response) text += piece.toString();
  return { status: (response as { statusCode?: number }).statusCode ?? 0, text };
}

async function writePair(folder: string, name: string): Promise<void> {
  const pair = await generate([{ name: 'commonName', value: name }], {
    keyType: 'ec',
    algorithm: 'sha256',
  });
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'tls.crt'), pair.cert);
  writeFileSync(join(folder, 'tls.key'), pair.private);
}

/** Everything that a connection of plain TCP receives. */
async function exchangePlain(port: number, text: string): Promise<string> {
  const socket: Socket = connectPlain(port, '127.0.0.1').setEncoding('utf8');
  let answer = '';
  socket.on('data', (piece: string) => (answer += piece));
  if (text !== '') socket.write(text);
  await once(socket, 'close');
  return answer;
}

describe('a listener without TLS', () => {
  it('speaks plain HTTP', async () => {
    const port = await start();
    expect(running?.url).toMatch(/^http:/);
    const request = 'GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n';
    expect(await exchangePlain(port, request)).toMatch(/^HTTP\/1.1 200 /);
  });
});

describe('a listener with a self-signed certificate', () => {
  it('serves clients that trust it', async () => {
    const port = await start({});
    expect(running?.url).toMatch(/^https:/);
    expect(await get(port, '/healthz')).toEqual({ status: 200, text: 'ok' });
  });

  it('shows a certificate for its own names', async () => {
    const socket = await handshake(await start({}));
    expect(socket.getPeerCertificate().subjectaltname).toContain('DNS:localhost');
    socket.destroy();
  });

  it('answers plain HTTP with 400 as an OpenAI error', async () => {
    const port = await start({});
    const answer = await exchangePlain(port, 'GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n');
    expect(answer).toMatch(/^HTTP\/1.1 400 Bad Request\r\n/);
    expect(JSON.parse(answer.split('\r\n\r\n')[1] ?? '')).toMatchObject({
      error: { code: 'TLS_REQUIRED', type: 'invalid_request_error', param: null },
    });
  });

  it('ends connections that say nothing, at the read timeout', async () => {
    expect(await exchangePlain(await start({}, 100), '')).toBe('');
  });

  it('does not wait for connections without a handshake when it stops', async () => {
    const port = await start({});
    const [silent, half] = [connectPlain(port, '127.0.0.1'), connectPlain(port, '127.0.0.1')];
    half.write(Buffer.from([0x16, 3, 1]));
    await Promise.all([silent, half].map((socket) => once(socket, 'connect')));
    await get(port, '/healthz');
    const closed = [silent, half].map((socket) =>
      once(
        socket.on('error', () => {}),
        'close',
      ),
    );
    await running?.stop();
    await Promise.all(closed);
  });

  it('does not crash on an answer of HTTP/1.0 that breaks off', async () => {
    const port = await start({});
    const socket = await handshake(port);
    socket.on('error', () => {}).resume();
    socket.write('GET /cut HTTP/1.0\r\nhost: x\r\n\r\n');
    await once(socket, 'close');
    expect(await get(port, '/healthz')).toMatchObject({ status: 200 });
    expect(lines.join('')).not.toContain('"level":"error"');
  });
});

describe('a listener with a certificate from files', () => {
  it('shows it', async () => {
    await writePair(directory, 'first.test');
    expect(await shownName(await start({ certificatePath: directory }))).toBe('first.test');
  });

  it('shows the next one without a restart, and keeps open connections', async () => {
    await writePair(directory, 'first.test');
    const port = await start({ certificatePath: directory });
    const open = await handshake(port);
    await writePair(directory, 'second.test');
    expect(await shownAfterChange(port, 'first.test')).toBe('second.test');
    open.write('GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n');
    const [answer] = (await once(open, 'data')) as [Buffer];
    expect(answer.toString()).toMatch(/^HTTP\/1.1 200 /);
    open.destroy();
  });

  it('follows the link that Kubernetes swaps', async () => {
    await writePair(join(directory, '..2026_01'), 'first.test');
    symlinkSync('..2026_01', join(directory, '..data'));
    for (const file of ['tls.crt', 'tls.key']) {
      symlinkSync(join('..data', file), join(directory, file));
    }
    const port = await start({ certificatePath: directory });
    expect(await shownName(port)).toBe('first.test');
    await writePair(join(directory, '..2026_02'), 'second.test');
    symlinkSync('..2026_02', join(directory, '..data_tmp'));
    renameSync(join(directory, '..data_tmp'), join(directory, '..data'));
    expect(await shownAfterChange(port, 'first.test')).toBe('second.test');
  });

  it('stays with the last good one when the next cannot be used, and says so', async () => {
    await writePair(directory, 'first.test');
    const port = await start({ certificatePath: directory });
    await writePair(join(directory, 'other'), 'other.test');
    renameSync(join(directory, 'other', 'tls.crt'), join(directory, 'tls.crt'));
    while (!lines.some((line) => line.includes('the last one stays'))) await sleep(50);
    expect(await shownName(port)).toBe('first.test');
    expect(lines.join('')).toContain('"level":"error"');
    expect(lines.join('')).not.toContain('PRIVATE');
    renameSync(join(directory, 'other', 'tls.key'), join(directory, 'tls.key'));
    expect(await shownAfterChange(port, 'first.test')).toBe('other.test');
  });

  it.each([
    { name: 'are missing', write: () => {}, reason: /tls\.crt/ },
    {
      name: 'are no certificate',
      write: () => {
        writeFileSync(join(directory, 'tls.crt'), 'x');
        writeFileSync(join(directory, 'tls.key'), 'x');
      },
      reason: /PEM|no start line/,
    },
  ])('does not start when the files $name', async ({ write, reason }) => {
    write();
    await expect(start({ certificatePath: directory })).rejects.toThrow(reason);
  });
});

describe('the versions of TLS', () => {
  it.each([
    { minVersion: undefined, client: 'TLSv1.2', isServed: true },
    { minVersion: undefined, client: 'TLSv1.1', isServed: false },
    { minVersion: 'TLSv1.3', client: 'TLSv1.3', isServed: true },
    { minVersion: 'TLSv1.3', client: 'TLSv1.2', isServed: false },
    { minVersion: 'TLSv1.1', client: 'TLSv1.1', isServed: true },
    { minVersion: 'TLSv1', client: 'TLSv1', isServed: true },
  ] as const)('with minimum $minVersion: $client is served: $isServed', async (row) => {
    const port = await start({ minVersion: row.minVersion });
    const outcome = handshake(port, {
      minVersion: row.client,
      maxVersion: row.client,
      ciphers: 'DEFAULT:@SECLEVEL=0',
    }).then(
      (socket) => socket.destroy() && true,
      () => false,
    );
    expect(await outcome).toBe(row.isServed);
  });
});

describe('cipher suites', () => {
  it('are those that were asked for, and TLS 1.3 stays', async () => {
    const port = await start({ cipherSuites: ['ECDHE-ECDSA-AES256-GCM-SHA384'] });
    const tls12 = await handshake(port, { maxVersion: 'TLSv1.2' });
    expect(tls12.getCipher().name).toBe('ECDHE-ECDSA-AES256-GCM-SHA384');
    const tls13 = await handshake(port);
    expect(tls13.getProtocol()).toBe('TLSv1.3');
    tls12.destroy();
    tls13.destroy();
    const other = { maxVersion: 'TLSv1.2', ciphers: 'ECDHE-ECDSA-AES128-GCM-SHA256' } as const;
    await expect(handshake(port, other)).rejects.toThrow();
  });

  it("are the library's own without a list", () => {
    const suites = (tlsOptions({}).ciphers ?? '').split(':').map((name) => name.toLowerCase());
    expect(getCiphers()).toEqual(expect.arrayContaining(suites.slice(0, 5)));
    expect(tlsOptions({}).minVersion).toBe('TLSv1.2');
  });
});
