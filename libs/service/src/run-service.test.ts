import { once } from 'node:events';
import {
  Agent,
  request as httpRequest,
  type IncomingMessage,
  type ServerResponse,
} from 'node:http';
import { createServer } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { Controller, Get, Module, Res } from '@nestjs/common';
import { type NestFastifyApplication } from '@nestjs/platform-fastify';
import { afterEach, describe, expect, it } from '@jest/globals';
import { createLogger } from '@llm-d/telemetry';
import { type FastifyReply } from 'fastify';
import { createService } from './create-service.ts';
import { Lifecycle } from './lifecycle.ts';
import { runService, startService } from './run-service.ts';

let streams: ServerResponse[] = [];

/** Sends a first piece and leaves the rest to the test; ends the stream when the service is cut. */
@Controller()
class StreamController {
  readonly #lifecycle: Lifecycle;

  constructor(lifecycle: Lifecycle) {
    this.#lifecycle = lifecycle;
  }

  @Get('/stream')
  stream(@Res() reply: FastifyReply): void {
    reply.hijack();
    reply.raw.write('first ');
    streams.push(reply.raw);
    this.#lifecycle.onCut(() => reply.raw.end('cut'));
  }

  /** Leaves the whole answer to the test. */
  @Get('/late')
  late(@Res() reply: FastifyReply): void {
    reply.hijack();
    streams.push(reply.raw);
  }
}

@Module({ controllers: [StreamController] })
class StreamModule {}

const lines: string[] = [];
const logger = createLogger({
  service: 'test',
  level: 2,
  destination: { write: (line) => lines.push(line) },
});
const apps: NestFastifyApplication[] = [];

async function newApp(): Promise<NestFastifyApplication> {
  lines.length = 0;
  streams = [];
  const app = await createService({ module: StreamModule, logger, bodyLimitBytes: 1024 });
  apps.push(app);
  return app;
}

afterEach(async () => {
  await Promise.all(apps.splice(0).map((app) => app.close()));
});

async function get(url: string, agent: Agent | false = false): Promise<IncomingMessage> {
  const call = httpRequest(url, { agent }).end();
  const [response] = (await once(call, 'response')) as [IncomingMessage];
  return response;
}

async function text(response: IncomingMessage): Promise<string> {
  let all = '';
  for await (const piece of response.setEncoding('utf8')) all += String(piece);
  return all;
}

describe('stop', () => {
  it('turns readiness to 503 at once, keeps liveness and lets an open stream finish', async () => {
    const app = await newApp();
    const service = await startService(app, {
      logger,
      host: '127.0.0.1',
      port: 0,
      shutdownTimeoutMs: 10_000,
      drainDelayMs: 1_000,
    });
    const stream = await get(`${service.url}/stream`);
    const stopped = service.stop();

    const ready = await get(`${service.url}/readyz`);
    expect(ready.statusCode).toBe(503);
    expect(await text(ready)).toBe('draining');
    const live = await get(`${service.url}/healthz`);
    expect(live.statusCode).toBe(200);
    expect(await text(live)).toBe('ok');

    streams[0]?.end('last');
    expect(await text(stream)).toBe('first last');
    expect(await stopped).toBe(true);
    await expect(get(`${service.url}/healthz`)).rejects.toThrow('ECONNREFUSED');
  });

  it('tells connections that are kept alive to close', async () => {
    const service = await startService(await newApp(), {
      logger,
      host: '127.0.0.1',
      port: 0,
      shutdownTimeoutMs: 10_000,
      drainDelayMs: 1_000,
    });
    const agent = new Agent({ keepAlive: true });
    const before = await get(`${service.url}/healthz`, agent);
    await text(before);
    const stopped = service.stop();
    const after = await get(`${service.url}/healthz`, agent);
    await text(after);
    expect([before, after].map(({ headers }) => headers.connection)).toEqual([
      'keep-alive',
      'close',
    ]);
    expect(await stopped).toBe(true);
    agent.destroy();
  });

  it('cuts a stream that outlives the limit, and counts a client that was told as drained', async () => {
    const service = await startService(await newApp(), {
      logger,
      host: '127.0.0.1',
      port: 0,
      shutdownTimeoutMs: 50,
    });
    const stream = await get(`${service.url}/stream`);
    expect(await service.stop()).toBe(true);
    expect(await text(stream)).toBe('first cut');
    expect(lines.join('')).toContain('outlived the shutdown timeout and are cut');
  });

  it('lets a slow client take the tail of an answer that is written', async () => {
    const service = await startService(await newApp(), {
      logger,
      host: '127.0.0.1',
      port: 0,
      shutdownTimeoutMs: 10_000,
    });
    const stream = await get(`${service.url}/stream`);
    const bytes = 32 * 1024 * 1024;
    streams[0]?.end(Buffer.alloc(bytes, 'x'));
    const stopped = service.stop();
    // Long enough for several sweeps of idle connections.
    await sleep(200);
    expect((await text(stream)).length).toBe('first '.length + bytes);
    expect(await stopped).toBe(true);
  });

  it('has an answer that begins after the signal say that its connection closes', async () => {
    const service = await startService(await newApp(), {
      logger,
      host: '127.0.0.1',
      port: 0,
      shutdownTimeoutMs: 10_000,
    });
    const agent = new Agent({ keepAlive: true });
    const answer = get(`${service.url}/late`, agent);
    while (streams.length === 0) await sleep(2);
    const stopped = service.stop();
    streams[0]?.end('late');
    expect((await answer).headers.connection).toBe('close');
    expect(await text(await answer)).toBe('late');
    expect(await stopped).toBe(true);
    agent.destroy();
  });

  it('destroys the connection of a client that does not take the end, and says so', async () => {
    const service = await startService(await newApp(), {
      logger,
      host: '127.0.0.1',
      port: 0,
      shutdownTimeoutMs: 50,
    });
    const stream = await get(`${service.url}/stream`);
    // More than the sockets hold, and nobody reads.
    streams[0]?.write(Buffer.alloc(64 * 1024 * 1024));
    expect(await service.stop()).toBe(false);
    stream.destroy();
  });

  it('waits for the work that the last request leaves behind', async () => {
    const app = await newApp();
    const service = await startService(app, {
      logger,
      host: '127.0.0.1',
      port: 0,
      shutdownTimeoutMs: 10_000,
    });
    const stream = await get(`${service.url}/stream`);
    const events: string[] = [];
    const asked = Promise.withResolvers<undefined>();
    const work = Promise.withResolvers<undefined>();
    app.get(Lifecycle).beforeEnd(() => {
      events.push('asked');
      asked.resolve(undefined);
      return work.promise;
    });

    const stopped = service.stop().then((isDrained) => events.push(`stopped: ${isDrained}`));
    events.push('last request');
    streams[0]?.end();
    await text(stream);
    await asked.promise;
    work.resolve(undefined);
    await stopped;
    expect(events).toEqual(['last request', 'asked', 'stopped: true']);
  });

  it('does not wait for such work beyond the limit', async () => {
    const app = await newApp();
    const service = await startService(app, {
      logger,
      host: '127.0.0.1',
      port: 0,
      shutdownTimeoutMs: 1,
    });
    app.get(Lifecycle).beforeEnd(() => new Promise(() => {}));
    expect(await service.stop()).toBe(false);
  });
});

describe('runService', () => {
  it('drains on SIGTERM and returns 0', async () => {
    const app = await newApp();
    const exitCode = runService(app, {
      logger,
      host: '127.0.0.1',
      port: 0,
      shutdownTimeoutMs: 5_000,
    });
    await once(app.getHttpServer(), 'listening');
    await new Promise(setImmediate);
    process.emit('SIGTERM', 'SIGTERM');
    expect(await exitCode).toBe(0);
    expect(lines.join('')).toMatch(/"address":"http:\/\/127\.0\.0\.1:\d+".*"listening"/);
  });

  it('returns 1 at once on a second signal', async () => {
    const app = await newApp();
    const exitCode = runService(app, {
      logger,
      host: '127.0.0.1',
      port: 0,
      shutdownTimeoutMs: 60_000,
    });
    await once(app.getHttpServer(), 'listening');
    await new Promise(setImmediate);
    const { port } = app.getHttpServer().address() as { port: number };
    const stream = await get(`http://127.0.0.1:${port}/stream`);
    process.emit('SIGINT', 'SIGINT');
    process.emit('SIGINT', 'SIGINT');
    expect(await exitCode).toBe(1);
    streams[0]?.end();
    await text(stream);
  });

  it('returns 1 with a clear message when the port is in use', async () => {
    const holder = createServer().listen(0, '127.0.0.1');
    await once(holder, 'listening');
    const { port } = holder.address() as { port: number };
    const exitCode = await runService(await newApp(), {
      logger,
      host: '127.0.0.1',
      port,
      shutdownTimeoutMs: 1_000,
    });
    holder.close();
    expect(exitCode).toBe(1);
    expect(lines.join('')).toContain(`cannot listen on 127.0.0.1:${port}: the port is in use`);
  });
});
