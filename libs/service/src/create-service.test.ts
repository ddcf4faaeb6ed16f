import { connect } from 'node:net';
import { Body, Controller, Get, Module, Param, Post } from '@nestjs/common';
import { type NestFastifyApplication } from '@nestjs/platform-fastify';
import { afterEach, describe, expect, it } from '@jest/globals';
import { errorType } from '@llm-d/pipeline';
import { createLogger } from '@llm-d/telemetry';
import supertest from 'supertest';
import { createService, type ServiceOptions } from './create-service.ts';
import { RequestError } from './request-error.ts';
import { type RunningService, startService } from './run-service.ts';

@Controller()
class EchoController {
  @Post('/echo')
  echo(@Body() body: Buffer): string {
    return JSON.stringify({ isBuffer: Buffer.isBuffer(body), text: body.toString() });
  }

  @Get('/items/:id')
  item(@Param('id') id: string): string {
    return id;
  }

  @Get('/broken')
  broken(): never {
    throw new Error('SECRET detail');
  }

  @Get('/refused')
  refused(): never {
    throw new RequestError(501, 'NOT_DONE', 'this cannot be done');
  }
}

@Module({ controllers: [EchoController] })
class EchoModule {}

const lines: string[] = [];
const logger = createLogger({
  service: 'test',
  level: 2,
  destination: { write: (line) => lines.push(line) },
});
const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

let app: NestFastifyApplication;
let running: RunningService;

async function start(options: Partial<ServiceOptions> = {}): Promise<RunningService> {
  lines.length = 0;
  app = await createService({ module: EchoModule, logger, bodyLimitBytes: 1024, ...options });
  running = await startService(app, {
    logger,
    host: '127.0.0.1',
    port: 0,
    shutdownTimeoutMs: 1_000,
  });
  return running;
}

const client = () => supertest(app.getHttpServer());

/** Sends raw bytes and reads until the server closes; what an impolite client would see. */
async function exchange(...pieces: (string | Buffer)[]): Promise<string> {
  const socket = connect(Number(new URL(running.url).port), '127.0.0.1');
  let answer = '';
  socket.setEncoding('utf8').on('data', (piece: string) => {
    answer += piece;
  });
  for (const piece of pieces) socket.write(piece);
  await new Promise<void>((resolve, reject) => {
    socket.on('close', () => {
      resolve();
    });
    socket.on('error', reject);
  });
  return answer;
}

afterEach(async () => {
  await running.stop();
});

describe('request bodies', () => {
  it.each(['application/json', 'text/plain', 'application/x-www-form-urlencoded', 'no/t a type'])(
    'arrive as bytes with the content type %s',
    async (type) => {
      await start();
      const response = await client().post('/echo').set('content-type', type).send('{"a": 1.0}');
      expect(response.status).toBe(201);
      expect(JSON.parse(response.text)).toEqual({ isBuffer: true, text: '{"a": 1.0}' });
    },
  );

  it('arrive without a content type', async () => {
    await start();
    const answer = await exchange(
      'POST /echo HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{}',
    );
    expect(answer).toContain('{"isBuffer":true,"text":"{}"}');
  });

  it('arrive whatever else the client expects', async () => {
    await start();
    const answer = await exchange(
      'POST /echo HTTP/1.1\r\nhost: x\r\nconnection: close\r\nexpect: more\r\ncontent-length: 2\r\n\r\n{}',
    );
    expect(answer).toContain('{"isBuffer":true,"text":"{}"}');
  });

  it('are an empty buffer when there is none', async () => {
    await start();
    const response = await client().post('/echo');
    expect(JSON.parse(response.text)).toEqual({ isBuffer: true, text: '' });
  });

  it('of exactly the limit pass', async () => {
    await start();
    const response = await client().post('/echo').send('x'.repeat(1024));
    expect(response.status).toBe(201);
  });

  it('over the limit are refused with an answer that a client still sending can read', async () => {
    await start({ bodyLimitBytes: 1024 * 1024 });
    const piece = Buffer.alloc(64 * 1024, 120);
    const answer = await exchange(
      `POST /echo HTTP/1.1\r\nhost: x\r\ncontent-length: ${32 * piece.length}\r\n\r\n`,
      ...Array.from({ length: 32 }, () => piece),
    );
    expect(answer).toMatch(/^HTTP\/1.1 413 /);
    expect(answer).toContain('connection: close');
    expect(answer).toContain('REQUEST_TOO_LARGE');
  });

  it('over the limit without a declared length are refused', async () => {
    await start();
    const chunk = `400\r\n${'x'.repeat(1024)}\r\n`;
    const answer = await exchange(
      'POST /echo HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n',
      chunk,
      '1\r\nx\r\n',
      '0\r\n\r\n',
    );
    expect(answer).toMatch(/^HTTP\/1.1 413 /);
  });

  it('are invited by 100-continue only when their length is allowed', async () => {
    await start();
    const head = 'POST /echo HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\nconnection: close\r\n';
    expect(await exchange(`${head}content-length: 2\r\n\r\n`, '{}')).toMatch(
      /^HTTP\/1.1 100 Continue\r\n\r\nHTTP\/1.1 201 /,
    );
    const refused = connect(Number(new URL(running.url).port), '127.0.0.1');
    refused.write(`${head}content-length: 2048\r\n\r\n`);
    const [first] = (await new Promise<Buffer[]>((resolve) => {
      refused.once('data', (data: Buffer) => {
        resolve([data]);
      });
    })) as [Buffer];
    refused.destroy();
    expect(first.toString()).toMatch(/^HTTP\/1.1 413 /);
  });

  it('that stall are answered with 408 and the request id', async () => {
    await start({ readTimeoutMs: 200 });
    const answer = await exchange(
      'POST /echo HTTP/1.1\r\nhost: x\r\nx-request-id: slow-1\r\ncontent-length: 10\r\n\r\n',
      '{"a"',
    );
    expect(answer).toMatch(/^HTTP\/1.1 408 /);
    expect(answer).toContain('x-request-id: slow-1');
    expect(answer).toContain('REQUEST_TIMEOUT');
  });

  it.each(['', 'POST', 'POST /echo HTTP/1.1\r\nhost: x\r\n'])(
    'whose headers stall after %j end at the read timeout too',
    async (begun) => {
      await start({ readTimeoutMs: 200 });
      const answer = await exchange(begun);
      expect(answer).toMatch(/^HTTP\/1.1 408 [^]*REQUEST_TIMEOUT/);
    },
  );
});

describe('uploads that break', () => {
  it('are answered with 400 and the request id when their chunks are no chunks', async () => {
    await start();
    const answer = await exchange(
      'POST /echo HTTP/1.1\r\nhost: x\r\nx-request-id: bad-1\r\ntransfer-encoding: chunked\r\n\r\n',
      'zz\r\n',
    );
    expect(answer).toMatch(/^HTTP\/1.1 400 /);
    expect(answer).toContain('x-request-id: bad-1');
  });

  it('are answered once when they stall after a refusal', async () => {
    await start({ readTimeoutMs: 200 });
    const answer = await exchange(
      'POST /nope HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\n',
      '{"a"',
    );
    expect(answer.match(/HTTP\/1.1/g)).toHaveLength(1);
    expect(answer).toMatch(/^HTTP\/1.1 404 /);
  });
});

describe('request ids', () => {
  it.each(['a', 'Req-0123-xyz', 'a'.repeat(128)])('keeps the valid id %s', async (id) => {
    await start();
    const response = await client().get('/healthz').set('x-request-id', id);
    expect(response.headers['x-request-id']).toBe(id);
    expect(lines.join('')).not.toContain('replaced');
  });

  it.each(['a_b', 'evil id', '../../etc', 'b'.repeat(129), '%0d%0aX: 1'])(
    'replaces the invalid id %s and logs its length only',
    async (id) => {
      await start();
      const response = await client().get('/healthz').set('x-request-id', id);
      expect(response.headers['x-request-id']).toMatch(uuid);
      expect(lines.join('')).toContain(`"length":${id.length}`);
      expect(lines.join('')).not.toContain(id);
    },
  );

  it('mints one silently when there is none', async () => {
    await start();
    const response = await client().get('/healthz');
    expect(response.headers['x-request-id']).toMatch(uuid);
    expect(lines).toEqual([]);
  });
});

describe('refusals', () => {
  it.each([
    {
      name: 'unknown path',
      method: 'get',
      path: '/nope?SECRET',
      status: 404,
      code: 'UNKNOWN_PATH',
    },
    { name: 'wrong method', method: 'get', path: '/echo', status: 405, code: 'METHOD_NOT_ALLOWED' },
    { name: 'wrong case', method: 'post', path: '/Echo', status: 404, code: 'UNKNOWN_PATH' },
    { name: 'bad escape', method: 'get', path: '/%zz', status: 400, code: 'INVALID_PATH' },
    { name: 'exception', method: 'get', path: '/broken', status: 500, code: 'INTERNAL_ERROR' },
    { name: 'own error', method: 'get', path: '/refused', status: 501, code: 'NOT_DONE' },
  ] as const)('$name: $status as an OpenAI error', async ({ method, path, status, code }) => {
    await start();
    const response = await client()[method](path).set('x-request-id', 'id-1');
    expect(response.status).toBe(status);
    expect(response.headers['content-type']).toBe('application/json');
    expect(response.headers['x-request-id']).toBe('id-1');
    expect(response.body).toEqual({
      error: {
        message: expect.any(String),
        type: errorType(status),
        code,
        param: null,
        request_id: 'id-1',
      },
    });
    expect(response.text).not.toContain('SECRET');
  });

  it.each([
    { path: '/echo', method: 'put', allow: 'POST' },
    { path: '/healthz', method: 'post', allow: 'GET' },
    { path: '/items/7', method: 'delete', allow: 'GET' },
  ] as const)('$method $path names the methods it takes', async ({ path, method, allow }) => {
    await start();
    const response = await client()[method](path);
    expect(response.status).toBe(405);
    expect(response.headers['allow']).toBe(allow);
  });

  it('reads and throws away the body of an unknown path', async () => {
    await start();
    const answer = await exchange(
      'POST /nope HTTP/1.1\r\nhost: x\r\ncontent-length: 65536\r\n\r\n',
      Buffer.alloc(65_536),
    );
    expect(answer).toMatch(/^HTTP\/1.1 404 /);
  });

  it('keeps the connection when there is no body to read', async () => {
    await start();
    const answer = await exchange(
      'GET /nope HTTP/1.1\r\nhost: x\r\n\r\n',
      'GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n',
    );
    expect(answer.match(/HTTP\/1.1 \d+/g)).toEqual(['HTTP/1.1 404', 'HTTP/1.1 200']);
  });

  it.each(['/echo', '/nope'])(
    'answers a request without a host in the same shape: %s',
    async (path) => {
      await start();
      const head = 'content-length: 2\r\n\r\n';
      const answer = await exchange(`POST ${path} HTTP/1.1\r\n${head}`, '{}');
      expect(answer).toMatch(/^HTTP\/1.1 400 /);
      expect(answer).toContain('"code":"INVALID_HTTP"');
      expect(await exchange(`POST /echo HTTP/1.0\r\n${head}`, '{}')).toMatch(/^HTTP\/1.1 201 /);
    },
  );

  it('answers broken HTTP in the same shape', async () => {
    await start();
    const answer = await exchange('NONSENSE\r\n\r\n');
    expect(answer).toMatch(/^HTTP\/1.1 400 /);
    expect(answer).toContain('"code":"INVALID_HTTP"');
  });

  it('takes a trailing slash and doubled slashes', async () => {
    await start();
    expect((await client().get('//healthz/')).status).toBe(200);
  });
});

describe('probes', () => {
  it.each(['/healthz', '/health', '/readyz'])('GET and HEAD %s answer 200', async (path) => {
    await start();
    expect(await client().get(path)).toMatchObject({ status: 200, text: 'ok' });
    expect((await client().head(path)).status).toBe(200);
  });

  it('readyz lists dependencies on demand without depending on them', async () => {
    await start({
      dependencies: {
        gateway: () => Promise.resolve(),
        render: () => Promise.reject(new Error('SECRET')),
      },
    });
    const response = await client().get('/readyz?verbose');
    expect(response.status).toBe(200);
    expect(response.body).toEqual({
      status: 'ok',
      dependencies: { gateway: 'up', render: 'down' },
    });
  });

  it('readyz is 503 while the service names problems, and 200 as soon as it names none', async () => {
    let problems = ['no queue: start one'];
    await start({ readiness: () => ({ problems }) });
    expect(await client().get('/readyz')).toMatchObject({
      status: 503,
      text: 'not ready\nno queue: start one',
    });
    expect(await client().get('/readyz?verbose')).toMatchObject({
      status: 503,
      body: { problems },
    });
    expect((await client().get('/healthz')).status).toBe(200);
    problems = [];
    expect(await client().get('/readyz')).toMatchObject({ status: 200, text: 'ok' });
  });
});
