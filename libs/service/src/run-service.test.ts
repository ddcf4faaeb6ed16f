import { once } from 'node:events';
import {
  Agent,
  request as httpRequest,
  type IncomingMessage,
  type ServerResponse,
} from 'node:http';
import { createServer } from 'node:net';
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
    this.#lifecycle.cut.addEventListener('abort', () => reply.raw.end('cut'));
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
      drainDelayMs: 300,
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
      drainDelayMs: 200,
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

  it('cuts a stream that outlives the limit and says so', async () => {
    const service = await startService(await newApp(), {
      logger,
      host: '127.0.0.1',
      port: 0,
      shutdownTimeoutMs: 50,
    });
    const stream = await get(`${service.url}/stream`);
    expect(await service.stop()).toBe(false);
    expect(await text(stream)).toBe('first cut');
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
