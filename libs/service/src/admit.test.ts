import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import { Body, Controller, Get, Injectable, Module, Post, Req, Res } from '@nestjs/common';
import { afterEach, describe, expect, it } from '@jest/globals';
import { createLogger } from '@llm-d/telemetry';
import { type FastifyReply, type FastifyRequest } from 'fastify';
import { Admission, type AdmissionLimits } from './admission.ts';
import { createService } from './create-service.ts';
import { type RunningService, startService } from './run-service.ts';
import { type UnknownPathHandler } from './unknown-path.ts';
import { type UnreadBody } from './unread-body.ts';

const kilobyte = 1024;

/** Ends held answers, in the order in which they began. */
const held: (() => void)[] = [];
/** Hears when a handler has its request. */
let onHeld: () => void = () => {};

function hold(reply: FastifyReply, text: string): void {
  reply.hijack();
  held.push(() => reply.raw.end(text));
  onHeld();
}

@Controller()
class HoldController {
  /** Keeps the request until the test ends it. */
  @Post('/hold')
  hold(@Req() request: FastifyRequest, @Body() body: Buffer, @Res() reply: FastifyReply): void {
    const hasWaited = (request.ticket?.queueMs ?? 0) > 0;
    hold(reply, `${body.length} bytes, waited: ${hasWaited}`);
  }

  @Get('/fails')
  fails(): never {
    throw new Error('fails');
  }
}

@Injectable()
class OtherPaths implements UnknownPathHandler {
  async serve(_: FastifyRequest, reply: FastifyReply, body: UnreadBody | undefined): Promise<void> {
    const bytes = await body?.read();
    hold(reply, `${bytes?.length ?? 0} bytes`);
  }
}

@Module({ controllers: [HoldController], providers: [OtherPaths] })
class HoldModule {}

const logger = createLogger({ service: 'test', level: 1, destination: { write: () => {} } });
let running: RunningService;
let admission: Admission;
const clients: Socket[] = [];

async function start(limits: Partial<AdmissionLimits> = {}): Promise<void> {
  const bodyLimitBytes = 64 * kilobyte;
  admission = new Admission(
    {
      maxConcurrentRequests: 0,
      maxQueuedRequests: 0,
      queueTimeoutMs: 0,
      maxBodyBytesHeld: 100 * kilobyte,
      ...limits,
    },
    bodyLimitBytes,
  );
  const app = await createService({
    module: HoldModule,
    logger,
    bodyLimitBytes,
    readTimeoutMs: 500,
    unknownPaths: OtherPaths,
    admission,
  });
  running = await startService(app, { logger, host: '127.0.0.1', port: 0, shutdownTimeoutMs: 500 });
}

afterEach(async () => {
  for (const client of clients.splice(0)) client.destroy();
  for (const end of held.splice(0)) end();
  await running.stop();
  expect({
    running: admission.running,
    queued: admission.queued,
    bytes: admission.bodyBytesHeld,
  }).toEqual({ running: 0, queued: 0, bytes: 0 });
});

/** A client that sends raw bytes; `answer` is everything that came back so far. */
function send(...pieces: (string | Buffer)[]): { socket: Socket; answer: () => string } {
  const socket = connect(Number(new URL(running.url).port), '127.0.0.1');
  clients.push(socket);
  let answer = '';
  socket.on('error', () => {}).setEncoding('utf8');
  socket.on('data', (piece: string) => (answer += piece));
  for (const piece of pieces) socket.write(piece);
  return { socket, answer: () => answer };
}

const post = (path: string, bytes: number, ...headers: string[]): string =>
  [`POST ${path} HTTP/1.1`, 'host: x', `content-length: ${bytes}`, ...headers, '', ''].join('\r\n');

/** Sends a whole request and resolves when its handler has it. */
async function sendHeld(path: string, bytes: number): Promise<ReturnType<typeof send>> {
  const isHeld = new Promise<void>((resolve) => (onHeld = resolve));
  const client = send(post(path, bytes), Buffer.alloc(bytes));
  await isHeld;
  return client;
}

async function until(isTrue: () => boolean): Promise<void> {
  while (!isTrue()) await sleep(2);
}

async function refused(client: ReturnType<typeof send>, status: number, code: string) {
  await until(() => client.answer().includes('}}'));
  const [head = '', body = ''] = client.answer().split('\r\n\r\n');
  expect(head).toMatch(new RegExp(`^HTTP/1.1 ${status} `));
  expect(head).toContain('retry-after: 1');
  expect(JSON.parse(body)).toMatchObject({ error: { code } });
}

describe('requests at a time', () => {
  it('are limited on all paths but the probes', async () => {
    await start({ maxConcurrentRequests: 2 });
    await sendHeld('/hold', 3);
    await sendHeld('/other', 3);
    await refused(send(post('/hold', 0)), 429, 'TOO_MANY_REQUESTS');
    await refused(send(post('/other', 0)), 429, 'TOO_MANY_REQUESTS');
    for (const path of ['/healthz', '/health', '/readyz']) {
      const response = await fetch(`${running.url}${path}`);
      expect(response.status).toBe(200);
      await response.text();
    }
    expect(admission.running).toBe(2);
    held.shift()?.();
    await until(() => admission.running === 1);
    await sendHeld('/hold', 3);
  });

  it('are refused before their body is invited or read', async () => {
    await start({ maxConcurrentRequests: 1 });
    await sendHeld('/hold', 3);
    const client = send(post('/hold', 40 * kilobyte, 'expect: 100-continue'));
    await refused(client, 429, 'TOO_MANY_REQUESTS');
    expect(client.answer()).not.toContain(' 100 ');
    expect(admission.bodyBytesHeld).toBe(3);
  });

  it('wait for their turn with their body at the client, and know how long', async () => {
    await start({ maxConcurrentRequests: 1, maxQueuedRequests: 1 });
    await sendHeld('/hold', 3);
    const client = send(post('/hold', 5, 'expect: 100-continue', 'connection: close'));
    await until(() => admission.queued === 1);
    expect({ answer: client.answer(), bytes: admission.bodyBytesHeld }).toEqual({
      answer: '',
      bytes: 3,
    });
    held.shift()?.();
    await until(() => client.answer().startsWith('HTTP/1.1 100 '));
    client.socket.write('12345');
    await until(() => held.length === 1);
    held.shift()?.();
    await once(client.socket, 'close');
    expect(client.answer()).toContain('5 bytes, waited: true');
  });

  it('leave the queue when their client leaves', async () => {
    await start({ maxConcurrentRequests: 1, maxQueuedRequests: 1 });
    await sendHeld('/hold', 3);
    const client = send(post('/hold', 5), '12345');
    await until(() => admission.queued === 1);
    client.socket.destroy();
    await until(() => admission.queued === 0);
  });

  it('are refused when they have waited too long', async () => {
    await start({ maxConcurrentRequests: 1, maxQueuedRequests: 1, queueTimeoutMs: 30 });
    await sendHeld('/hold', 3);
    await refused(send(post('/hold', 5), '12345'), 429, 'QUEUE_TIMEOUT');
  });
});

describe('bytes of bodies', () => {
  it.each(['/hold', '/other'])('are refused on %s by their declared length', async (path) => {
    await start();
    await sendHeld('/hold', 60 * kilobyte);
    const client = send(post(path, 41 * kilobyte, 'expect: 100-continue'));
    await refused(client, 503, 'BODY_MEMORY_FULL');
    expect(client.answer()).not.toContain(' 100 ');
    expect(admission.refused.body_bytes).toBe(1);
    await sendHeld(path, 40 * kilobyte);
    expect(admission.bodyBytesHeld).toBe(100 * kilobyte);
  });

  it('are refused as chunks arrive', async () => {
    await start();
    await sendHeld('/hold', 60 * kilobyte);
    const chunk = `5000\r\n${'x'.repeat(0x5000)}\r\n`;
    const client = send('POST /hold HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n');
    client.socket.write(chunk);
    await until(() => admission.bodyBytesHeld === 80 * kilobyte);
    client.socket.write(chunk);
    await until(() => admission.bodyBytesHeld === 100 * kilobyte);
    client.socket.write('1\r\nx\r\n0\r\n\r\n');
    await refused(client, 503, 'BODY_MEMORY_FULL');
  });

  it('count unpacked', async () => {
    await start();
    await sendHeld('/hold', 60 * kilobyte);
    const packed = gzipSync(Buffer.alloc(50 * kilobyte));
    const client = send(post('/hold', packed.length, 'content-encoding: gzip'), packed);
    await refused(client, 503, 'BODY_MEMORY_FULL');
  });

  it.each([
    { name: 'breaks off', end: (socket: Socket) => socket.destroy() },
    { name: 'stalls', end: () => undefined },
  ])('are given back when an upload $name', async ({ end }) => {
    await start();
    const { socket } = send(post('/hold', 40 * kilobyte), Buffer.alloc(10));
    await until(() => admission.bodyBytesHeld === 40 * kilobyte);
    end(socket);
    await until(() => admission.bodyBytesHeld === 0);
  });

  it('over the limit of one body stay 413', async () => {
    await start();
    const client = send(post('/hold', 65 * kilobyte));
    await until(() => client.answer() !== '');
    expect(client.answer()).toMatch(/^HTTP\/1.1 413 /);
  });
});

describe('everything is given back', () => {
  it('when a handler fails, and after requests that come at once on one connection', async () => {
    await start();
    const get = 'GET /fails HTTP/1.1\r\nhost: x\r\n\r\n';
    const client = send(get.repeat(3));
    await until(() => client.answer().split('INTERNAL_ERROR').length === 4);
    await until(() => admission.running === 0);
  });

  it('when clients leave at any point of their request', async () => {
    await start({ maxConcurrentRequests: 8, maxQueuedRequests: 8 });
    const request = Buffer.concat([Buffer.from(post('/hold', 2_000)), Buffer.alloc(2_000)]);
    for (let i = 0; i < 200; i += 1) {
      const { socket } = send(request.subarray(0, (i * 97) % request.length));
      setTimeout(() => socket.destroy(), i % 10);
      if (i % 20 === 19) await sleep(5);
    }
    await until(() => admission.running === 0 && admission.queued === 0);
    expect(admission.bodyBytesHeld).toBe(0);
  });
});
