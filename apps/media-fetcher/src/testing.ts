import { once } from 'node:events';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createServer, type RequestListener } from 'node:http';
import { type AddressInfo, type Socket } from 'node:net';
import { type RunningService, startService } from '@llm-d/service';
import { createLogger, type Tracing } from '@llm-d/telemetry';
import supertest from 'supertest';
import { createApp } from './app.ts';
import { type FetcherConfig, loadFetcherConfig } from './config.ts';

/** A PNG of one pixel. */
export const png = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC',
  'base64',
);

/** An origin on loopback. */
export interface Origin {
  readonly base: string;
  /** Paths that were asked for. */
  readonly asked: string[];
  /** Connections that are open. */
  readonly open: ReadonlySet<Socket>;
  close(): Promise<void>;
}

/** Starts an origin. */
export async function startOrigin(listener: RequestListener): Promise<Origin> {
  const asked: string[] = [];
  const open = new Set<Socket>();
  const server = createServer((request, response) => {
    asked.push(request.url ?? '');
    listener(request, response);
  });
  server.on('connection', (socket) => {
    open.add(socket);
    socket.once('close', () => open.delete(socket));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    base: `http://127.0.0.1:${port}`,
    asked,
    open,
    close: async () => {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

/** A media fetcher that listens, and what it has logged. */
export interface TestFetcher extends RunningService {
  readonly lines: Record<string, unknown>[];
  close(): Promise<void>;
}

/** Starts a media fetcher that may reach loopback, with variables of its own. */
export async function startFetcher(
  environment: Record<string, string> = {},
  change: (config: FetcherConfig) => FetcherConfig = (config) => config,
  tracing?: Tracing,
): Promise<TestFetcher> {
  const lines: Record<string, unknown>[] = [];
  const logger = createLogger({
    service: 'test',
    level: 5,
    destination: {
      write: (line) => void lines.push(JSON.parse(line) as Record<string, unknown>),
    },
  });
  const { config } = loadFetcherConfig([], { MEDIA_LISTEN: '127.0.0.1:0', ...environment });
  const media = { ...config.media, testOnlyAllowLoopback: true };
  const app = await createApp({ config: change({ ...config, media }), logger, tracing });
  const running = await startService(app.service, { ...config, ...config.listen, logger });
  return {
    ...running,
    lines,
    close: async () => {
      await running.stop();
      await app.close();
    },
  };
}

/** A photo of 640 x 480 pixels. */
export const photo = readFileSync(
  join(import.meta.dirname, '../../../tools/local-stack/photo/harbour.jpg'),
);

/** SHA-256 of the PNG in hex, and the tag that names its bytes. */
export const digest = createHash('sha256').update(png).digest('hex');
export const etag = `"sha256:${digest}"`;

export const fetchPath = '/v1/media/fetch';
export const batchPath = '/v1/media/batch';

/** An answer of a media fetcher. */
export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly bytes: Buffer;
  readonly json: () => Record<string, unknown>;
}

interface Response extends Omit<Answer, 'bytes' | 'json'> {
  readonly body: Buffer | object;
}

function answerOf({ status, headers, body }: Response): Answer {
  const bytes = Buffer.isBuffer(body) ? body : Buffer.alloc(0);
  return {
    status,
    headers,
    bytes,
    json: () => JSON.parse(bytes.toString()) as Record<string, unknown>,
  };
}

/** The frames of an answer: their headers and what follows each of them. */
export function framesOf(bytes: Buffer): { header: Record<string, unknown>; bytes: Buffer }[] {
  const frames = [];
  for (let at = 0; at < bytes.length;) {
    const length = bytes.readUInt32BE(at);
    const text = bytes.toString('utf8', at + 4, at + 4 + length);
    const header = JSON.parse(text) as Record<string, unknown>;
    at += 4 + length;
    const byteLength = header['byte_length'] as number;
    frames.push({ header, bytes: bytes.subarray(at, at + byteLength) });
    at += byteLength;
  }
  return frames;
}

/** An origin with every kind of answer, a media fetcher with small limits, and one with a cache. */
export class Rig {
  readonly origin: Origin;
  readonly fetcher: TestFetcher;
  readonly cached: TestFetcher;

  private constructor(origin: Origin, fetcher: TestFetcher, cached: TestFetcher) {
    this.origin = origin;
    this.fetcher = fetcher;
    this.cached = cached;
  }

  static async open(): Promise<Rig> {
    const origin = await startOrigin(answerOrigin);
    const small = await startFetcher({
      MEDIA_MAX_DOWNLOAD_SIZE_IMAGE: '1',
      MEDIA_MAX_TOTAL_DOWNLOAD_SIZE: '2',
      MEDIA_MAX_RETRIES: '0',
    });
    return new Rig(origin, small, await startFetcher({ MEDIA_CACHE_ENABLED: 'true' }));
  }

  /** A URL of the origin; most paths are the PNG. */
  url(path = '/a.png'): string {
    return this.origin.base + path;
  }

  async post(
    path: string,
    body: unknown,
    headers: Record<string, string> = {},
    to = this.fetcher,
  ): Promise<Answer> {
    const answer: unknown = await supertest(to.url)
      .post(path)
      .set({ 'content-type': 'application/json', ...headers })
      .responseType('blob')
      .send(typeof body === 'string' ? body : JSON.stringify(body));
    return answerOf(answer as Response);
  }

  async get(
    path: string,
    headers: Record<string, string> = {},
    to = this.fetcher,
  ): Promise<Answer> {
    const answer: unknown = await supertest(to.url).get(path).set(headers).responseType('blob');
    return answerOf(answer as Response);
  }

  async close(): Promise<void> {
    await Promise.all([this.fetcher.close(), this.cached.close()]);
    await this.origin.close();
  }
}

const answerOrigin: RequestListener = ({ url = '' }, response) => {
  const status = /^\/status\/(\d+)/.exec(url)?.[1];
  if (status) response.writeHead(Number(status)).end('SECRET of the origin');
  else if (url.startsWith('/html')) response.end('<!doctype html><p>log in</p>');
  else if (url.startsWith('/photo')) response.end(photo);
  else if (url.startsWith('/empty')) response.end();
  else if (url.startsWith('/wordy')) {
    const long = 'x'.repeat(3_000);
    const headers = { etag: `"${long}"`, 'last-modified': long, 'content-type': `a/${long}` };
    response.writeHead(200, headers).end(png);
  } else if (url.startsWith('/big')) response.end(Buffer.alloc(2 * 1024 * 1024));
  else if (url.startsWith('/huge')) {
    const huge = Buffer.from(png);
    huge.writeUInt32BE(60_000, 16);
    huge.writeUInt32BE(60_000, 20);
    response.end(huge);
  } else if (url.startsWith('/cut')) {
    response.writeHead(200, { 'content-length': 100 });
    response.write('12345', () => response.destroy());
  } else if (url.startsWith('/mute')) response.flushHeaders();
  else if (url.startsWith('/zstd')) {
    response.writeHead(200, { 'content-encoding': 'zstd' }).end(png);
  } else if (url.startsWith('/to/')) {
    response.writeHead(302, { location: decodeURIComponent(url.slice(4)) }).end();
  } else if (url === '/loop') response.writeHead(302, { location: '/loop' }).end();
  else if (url.startsWith('/nowhere')) response.writeHead(302).end();
  else {
    const headers = { etag: '"abc"', 'last-modified': 'Mon, 01 Jan 2024 00:00:00 GMT' };
    response.writeHead(200, { 'content-type': 'image/jpeg', ...headers }).end(png);
  }
};
