import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import {
  type AddressInfo,
  connect,
  createServer as createSocketServer,
  type Server,
  type Socket,
} from 'node:net';
import { Worker } from 'node:worker_threads';
import { type MediaFetcherConfig } from './fetcher-config.ts';
import { MediaError } from './media-error.ts';
import { MediaFetcher } from './media-fetcher.ts';
import { defaultMediaFetchOptions, type MediaFetchOptions, type MediaRef } from './options.ts';

/** A PNG of one pixel. */
export const png = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC',
  'base64',
);

/** A GIF of one pixel. */
export const gif = Buffer.from(
  'R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7',
  'base64',
);

/** A WebP (VP8) of one pixel. */
export const webp = Buffer.from(
  'UklGRiQAAABXRUJQVlA4IBgAAAAwAQCdASoBAAEAAgA0JaQAA3AA/vuUAAA=',
  'base64',
);

/** The header of a JPEG of 3 x 2 pixels with an EXIF segment of the given length, and its end marker. */
export function jpeg(exifBytes = 16): Buffer {
  const app1 = Buffer.alloc(exifBytes + 4);
  app1.writeUInt16BE(0xffe1, 0);
  app1.writeUInt16BE(exifBytes + 2, 2);
  const frame = Buffer.from('ffc0000b080002000301011100', 'hex');
  return Buffer.concat([Buffer.from('ffd8', 'hex'), app1, frame, Buffer.from('ffd9', 'hex')]);
}

/** The first 33 bytes of a PNG that claims so many pixels, and its end chunk. */
export function pngOf(width: number, height: number): Buffer {
  const bytes = Buffer.from(png);
  bytes.writeUInt32BE(width, 16);
  bytes.writeUInt32BE(height, 20);
  return bytes;
}

/** An origin on loopback that closes with the test. */
export interface Origin extends AsyncDisposable {
  /** `http://127.0.0.1:<port>` */
  readonly base: string;
  readonly port: number;
  /** Connections accepted so far. */
  connections(): number;
  /** Resolves when no connection is open. */
  idle(): Promise<void>;
}

async function serve(server: Server, scheme: string): Promise<Origin> {
  const sockets = new Set<Socket>();
  let connections = 0;
  server.on('connection', (socket) => {
    connections += 1;
    sockets.add(socket);
    socket.on('error', () => undefined);
    socket.once('close', () => sockets.delete(socket));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  // A server that listens on TCP has an address object.
  const { port } = server.address() as AddressInfo;
  return {
    base: `${scheme}://127.0.0.1:${port}`,
    port,
    connections: () => connections,
    idle: async () => {
      // Not `once`, which rejects when the peer resets the connection first.
      const closes = (socket: Socket) => new Promise((resolve) => socket.once('close', resolve));
      await Promise.all([...sockets].map(closes));
    },
    [Symbol.asyncDispose]: async () => {
      const closed = once(server, 'close');
      server.close();
      for (const socket of sockets) {
        socket.destroy();
      }
      await closed;
    },
  };
}

/** An HTTP origin. */
export const startOrigin = (listener: RequestListener): Promise<Origin> =>
  serve(createServer(listener), 'http');

/** An HTTPS origin. */
export const startTlsOrigin = (
  identity: { key: Buffer; cert: Buffer },
  listener: RequestListener,
): Promise<Origin> => serve(createTlsServer(identity, listener), 'https');

/** An origin that answers every request of a connection with exactly these bytes and may close then. */
export const startRawOrigin = (answer: (socket: Socket, head: string) => void): Promise<Origin> =>
  serve(
    createSocketServer((socket) => {
      let head = '';
      socket.on('data', (chunk) => {
        head += chunk.toString('latin1');
        if (head.endsWith('\r\n\r\n')) {
          answer(socket, head);
          head = '';
        }
      });
    }),
    'http',
  );

/** A fetcher that may reach loopback; it closes with the test. */
export function loopbackFetcher(config: MediaFetcherConfig = {}): MediaFetcher & AsyncDisposable {
  const fetcher = new MediaFetcher({ testOnlyAllowLoopback: true, ...config });
  return Object.assign(fetcher, { [Symbol.asyncDispose]: () => fetcher.close() });
}

/** An image reference. */
export const image = (url: string): MediaRef => ({ url, modality: 'image' });

/** The default options with changes. */
export const optionsWith = (changes: Partial<MediaFetchOptions> = {}): MediaFetchOptions => ({
  ...defaultMediaFetchOptions,
  ...changes,
});

/** A signal that never aborts. */
export const never = (): AbortSignal => new AbortController().signal;

/** The MediaError that an action fails with; anything else fails the test. */
export async function failureOf(action: () => unknown): Promise<MediaError> {
  try {
    await action();
  } catch (error) {
    if (error instanceof MediaError) {
      return error;
    }
    throw error;
  }
  throw new Error('expected a MediaError, nothing was thrown');
}

/** A port of loopback whose connections neither succeed nor fail: its queue of connections is full. */
export async function startMuteOrigin(): Promise<{ base: string } & AsyncDisposable> {
  // Its thread sleeps, so that nobody accepts; the system queues two and drops what else comes.
  const worker = new Worker(
    `const { parentPort } = require('node:worker_threads');
     const server = require('node:net').createServer();
     server.listen({ port: 0, host: '127.0.0.1', backlog: 1 }, () => {
       parentPort.postMessage(server.address().port);
       setImmediate(() => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0));
     });`,
    { eval: true },
  );
  const [port] = (await once(worker, 'message')) as [number];
  const queued = [connect(port, '127.0.0.1'), connect(port, '127.0.0.1')];
  for (const socket of queued) {
    socket.on('error', () => undefined);
  }
  await Promise.all(queued.map((socket) => once(socket, 'connect')));
  return {
    base: `http://127.0.0.1:${port}`,
    [Symbol.asyncDispose]: async () => {
      for (const socket of queued) {
        socket.destroy();
      }
      await worker.terminate();
    },
  };
}
