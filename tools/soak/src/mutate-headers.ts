import { brotliCompressSync, deflateSync, gzipSync, zstdCompressSync } from 'node:zlib';
import { type Random } from './random.ts';

/** Head and body of a request as they go on the wire. */
export interface RawRequest {
  readonly head: Buffer;
  readonly body: Buffer;
}

const names = [
  ...['x-request-id', 'epp-profile', 'x-llm-d-epp-profile', 'prefer', 'x-prefiller-host-port'],
  ...['x-gateway-destination-endpoint', 'x-gateway-destination-endpoint-subset', 'traceparent'],
  ...[
    'accept-encoding',
    'accept',
    'te',
    'trailer',
    'upgrade',
    'connection',
    'keep-alive',
    'cookie',
  ],
  ...['authorization', 'x-llm-d-revision-decision-id', 'x-llm-d-disagg-revision', 'host', 'range'],
  ...['content-type', 'content-encoding', 'content-length', 'transfer-encoding', 'expect', 'x-a'],
  ...['proxy-authorization', 'x-forwarded-for', 'x-data-parallel-rank', 'content-md5', '__proto__'],
];
const values = [
  ...['', ' ', 'a', 'if-available', 'decode', 'prefill', '10.0.0.1:80', 'reserve-endpoint', 'gzip'],
  ...[
    'gzip, br',
    'identity',
    'chunked',
    'close',
    'keep-alive, x-a',
    '100-continue',
    'h2c',
    '0',
    '-1',
  ],
  ...[
    '1e3',
    '99999999999999999999',
    '../../x',
    'é',
    '\u0001',
    'a\tb',
    'a'.repeat(9000),
    '*',
    'foo',
  ],
  ...['00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01', '00-zz-yy-01', 'a'.repeat(129)],
];
const codings = {
  gzip: gzipSync,
  deflate: deflateSync,
  br: brotliCompressSync,
  zstd: zstdCompressSync,
} as const;

/** A request whose head is hostile, with a body that may be packed, longer or shorter than it says. */
export function rawRequest(path: string, plain: Buffer, random: Random): RawRequest {
  const lines: string[] = [];
  let body = plain;
  if (random.percent(25)) {
    const coding = random.pick(['gzip', 'deflate', 'br', 'zstd'] as const);
    body = codings[coding](plain);
    if (random.percent(20)) body = body.subarray(0, random.below(body.length + 1));
    lines.push(`content-encoding: ${coding}`);
  }
  let sent = body;
  if (random.percent(20)) {
    sent = chunked(body, random);
    lines.push('transfer-encoding: chunked');
  } else if (!random.percent(5)) {
    const length = random.percent(90) ? body.length : random.below(2 * body.length + 2);
    lines.push(`content-length: ${length}`);
  }
  for (let left = random.below(5); left > 0; left--) {
    const name = random.percent(20) ? random.pick(names).toUpperCase() : random.pick(names);
    lines.push(`${name}${random.percent(3) ? ' ' : ''}: ${random.pick(values)}`);
  }
  const method = random.percent(92) ? 'POST' : random.pick(['GET', 'PUT', 'HEAD', 'X', 'CONNECT']);
  const version = random.percent(95) ? 'HTTP/1.1' : random.pick(['HTTP/1.0', 'HTTP/2.0', 'X']);
  const target = random.percent(90) ? path : random.pick(targets(path));
  const ending = random.percent(98) ? '\r\n' : '\n';
  const host = random.percent(97) ? ['host: fuzz'] : [];
  const head = [`${method} ${target} ${version}`, ...host, 'connection: close', ...lines];
  return { head: Buffer.from(head.join(ending) + ending.repeat(2), 'latin1'), body: sent };
}

const targets = (path: string): string[] => [
  ...[`${path}/`, `/${path}`, `${path}?a=%`, `${path}/render`, `${path}%2f..`, '/../..', '*', '/'],
  ...['http://other/v1/models', '/%', '/v1/models', '/healthz', '/readyz?verbose', '/v1/é', '//'],
];

function chunked(body: Buffer, random: Random): Buffer {
  const pieces: Buffer[] = [];
  for (let at = 0; at < body.length;) {
    const piece = body.subarray(at, (at += 1 + random.below(400)));
    const size = random.percent(97) ? piece.length.toString(16) : random.pick(['zz', '-1', '']);
    pieces.push(Buffer.from(`${size}\r\n`), piece, Buffer.from('\r\n'));
  }
  if (!random.percent(3)) pieces.push(Buffer.from('0\r\n\r\n'));
  return Buffer.concat(pieces);
}
