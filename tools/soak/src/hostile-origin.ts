import { once } from 'node:events';
import { createServer, type RequestListener, type ServerResponse } from 'node:http';
import { type AddressInfo, createServer as createSocketServer, type Socket } from 'node:net';
import { gzipSync } from 'node:zlib';
import sharp from 'sharp';

const mebibyte = 1024 * 1024;

/** What a fetcher may say of an origin; anything else is a fault. */
export type Expectation = readonly string[];

interface HttpKind {
  readonly expected: Expectation;
  readonly answer: RequestListener;
}

interface RawKind {
  readonly expected: Expectation;
  /** Called with the head of a request. */
  readonly answer: (socket: Socket) => void;
}

const image = { 'content-type': 'image/png' };
const slow: Expectation = ['media_timeout'];

/** Writes as fast as the other side reads, for ever. */
function forever(response: ServerResponse): void {
  const piece = Buffer.alloc(64 * 1024);
  const write = (): void => {
    while (!response.destroyed && response.write(piece));
  };
  response.on('drain', write);
  write();
}

/** Writes a piece again and again until the other side has gone. */
function drip(target: NodeJS.WritableStream, piece: string | Buffer, everyMs: number): void {
  const timer = setInterval(() => target.write(piece), everyMs);
  target.once('close', () => {
    clearInterval(timer);
  });
  target.once('error', () => {
    clearInterval(timer);
  });
}

async function httpKinds(): Promise<Record<string, HttpKind>> {
  const noise = { type: 'gaussian', mean: 128, sigma: 30 } as const;
  const create = { width: 1600, height: 1200, channels: 3, background: '#000', noise } as const;
  const photo = await sharp({ create }).jpeg().toBuffer();
  const png = await sharp({ create: { ...create, width: 8, height: 8 } })
    .png()
    .toBuffer();
  const bomb = gzipSync(Buffer.alloc(64 * mebibyte));
  const huge = Buffer.from(png);
  huge.writeUInt32BE(60_000, 16);
  huge.writeUInt32BE(60_000, 20);
  const serve =
    (body: Buffer | string, headers: Record<string, string> = image, status = 200) =>
    (_: unknown, response: ServerResponse): void => {
      response.writeHead(status, headers).end(body);
    };
  const status = (code: number, headers: Record<string, string> = {}): RequestListener =>
    serve('no', headers, code);
  return {
    small: { expected: ['ok'], answer: serve(png) },
    photo: { expected: ['ok'], answer: serve(photo) },
    large: {
      expected: ['ok', 'media_overloaded'],
      answer: serve(Buffer.concat([png, Buffer.alloc(5 * mebibyte)])),
    },
    changing: {
      expected: ['ok'],
      answer: (_, response) => serve(png, { ...image, etag: `"${Math.random()}"` })(_, response),
    },
    endless: {
      expected: ['media_too_large', 'media_timeout', 'media_overloaded'],
      answer: (_, response) => {
        forever(response.writeHead(200, image));
      },
    },
    gzipBomb: {
      expected: ['media_too_large', 'media_overloaded', 'media_timeout'],
      answer: serve(bomb, { ...image, 'content-encoding': 'gzip' }),
    },
    pixelBomb: { expected: ['media_dimensions_exceeded'], answer: serve(huge) },
    promises: {
      expected: ['media_too_large'],
      answer: (_, response) => {
        response.writeHead(200, { ...image, 'content-length': 10 ** 12 }).flushHeaders();
      },
    },
    mute: { expected: slow, answer: () => undefined },
    stall: {
      expected: slow,
      answer: (_, response) => {
        response.writeHead(200, { ...image, 'content-length': 1000 }).write('abc');
      },
    },
    drip: {
      expected: slow,
      answer: (_, response) => {
        drip(response.writeHead(200, image), 'x', 50);
      },
    },
    loop: { expected: ['media_too_many_redirects'], answer: status(302, { location: '?' }) },
    metadata: {
      expected: ['media_redirect_blocked'],
      answer: status(302, { location: 'http://169.254.169.254/latest/' }),
    },
    endlessRedirect: {
      expected: ['media_redirect_blocked'],
      answer: (_, response) => {
        forever(response.writeHead(302, { location: 'http://10.0.0.1/' }));
      },
    },
    page: { expected: ['media_type_not_allowed'], answer: serve('<!doctype html>') },
    gone: { expected: ['media_origin_status'], answer: status(404) },
    broken: { expected: ['media_origin_status'], answer: status(503) },
    busy: { expected: ['media_origin_status'], answer: status(429, { 'retry-after': '30' }) },
    reset: {
      expected: ['media_connect_failed'],
      answer: (request) => request.socket.resetAndDestroy(),
    },
    cut: {
      expected: ['media_truncated'],
      answer: (_, response) => {
        response.writeHead(200, { ...image, 'content-length': 1000 }).write('abc', () => {
          response.socket?.destroy();
        });
      },
    },
  };
}

const rawKinds: Readonly<Record<string, RawKind>> = {
  garbage: {
    expected: ['media_protocol_error'],
    answer: (socket) => socket.end('\0\x01nothing that is HTTP\r\n\r\n'),
  },
  manyHeaders: {
    expected: ['media_protocol_error', 'media_connect_failed'],
    answer: (socket) => socket.end(`HTTP/1.1 200 OK\r\n${'x-header: y\r\n'.repeat(4000)}\r\n`),
  },
  headerDrip: {
    expected: slow,
    answer: (socket) => {
      socket.write('HTTP/1.1 200 OK\r\n');
      drip(socket, 'x-header: y\r\n', 100);
    },
  },
  hints: {
    expected: ['media_timeout', 'media_protocol_error'],
    answer: (socket) => {
      drip(socket, 'HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n', 5);
    },
  },
  lengths: {
    expected: ['media_protocol_error'],
    answer: (socket) => {
      socket.end('HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nhello');
    },
  },
};

/** Origins on the loopback that do what they should not. */
export interface HostileOrigin {
  /** What may come of each kind. */
  readonly kinds: ReadonlyMap<string, Expectation>;
  url(kind: string, number: number): string;
  /** Connections that are open. */
  openSockets(): number;
  close(): void;
}

/** Starts them. */
export async function startHostileOrigin(): Promise<HostileOrigin> {
  const http = await httpKinds();
  const sockets = new Set<Socket>();
  const kindOf = (url: string): string => url.split('/')[1] ?? '';
  const server = createServer((request, response) => {
    response.on('error', () => undefined);
    http[kindOf(request.url ?? '')]?.answer(request, response);
  });
  // The fetcher lets go first: a connection that ends as it is used again would be a failure of nobody.
  server.keepAliveTimeout = 0;
  const raw = createSocketServer((socket) => {
    let head = '';
    socket.on('data', (chunk) => {
      head += chunk.toString('latin1');
      if (!head.endsWith('\r\n\r\n')) return;
      rawKinds[kindOf(head.split(' ')[1] ?? '')]?.answer(socket);
      head = '';
    });
  });
  const bases: string[] = [];
  for (const one of [server, raw]) {
    one.on('connection', (socket: Socket) => {
      sockets.add(socket);
      socket.on('error', () => undefined);
      socket.once('close', () => sockets.delete(socket));
    });
    one.listen(0, '127.0.0.1');
    await once(one, 'listening');
    // A server that listens on TCP has an address object.
    bases.push(`http://127.0.0.1:${(one.address() as AddressInfo).port}`);
  }
  const all = [...Object.entries(http), ...Object.entries(rawKinds)];
  return {
    kinds: new Map(all.map(([name, { expected }]) => [name, expected])),
    url: (kind, number) => `${bases[kind in http ? 0 : 1]}/${kind}/${number}`,
    openSockets: () => sockets.size,
    close: () => {
      server.close();
      raw.close();
      for (const socket of sockets) socket.destroy();
    },
  };
}
