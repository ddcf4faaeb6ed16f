import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer, request as httpRequest, type Server } from 'node:http';
import { type AddressInfo, type Socket } from 'node:net';
import { brotliCompressSync, createGzip, deflateSync, gzipSync, zstdCompressSync } from 'node:zlib';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { readBody } from './read-body.ts';
import { RequestError } from './request-error.ts';

const limitBytes = 2 * 1_048_576;
/** Does not pack below a quarter. */
const text = JSON.stringify({
  model: 'm',
  prompt: Array.from({ length: 2_000 }, (_, i) => (i * 2_654_435_761) >>> 0).join(' '),
});

type Outcome = { readonly body: Buffer } | { readonly error: unknown };

let server: Server;
let outcome: PromiseWithResolvers<Outcome>;

beforeEach(async () => {
  outcome = Promise.withResolvers();
  server = createServer((request, response) => {
    readBody(request, response, limitBytes, new WeakMap<Socket, () => void>()).then(
      (body) => {
        outcome.resolve({ body });
        response.end();
      },
      (error: unknown) => {
        outcome.resolve({ error });
        response.end();
        request.resume();
      },
    );
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
});

afterEach(async () => {
  server.close();
  server.closeAllConnections();
  await once(server, 'close');
});

/** Sends a body in pieces, chunked; resolves to what came out of it. */
async function upload(coding: string | undefined, body: Uint8Array): Promise<Outcome> {
  const { port } = server.address() as AddressInfo;
  const call = httpRequest({
    port,
    method: 'POST',
    agent: false,
    headers: coding === undefined ? {} : { 'content-encoding': coding },
  });
  call.on('error', () => {}).on('response', (response) => response.resume());
  const step = Math.ceil(body.length / 8);
  for (let i = 0; i < body.length; i += step) call.write(body.subarray(i, i + step));
  call.end();
  return outcome.promise;
}

async function refusal(coding: string, body: Uint8Array): Promise<RequestError> {
  const given = await upload(coding, body);
  if ('error' in given && given.error instanceof RequestError) return given.error;
  throw new Error('the body was not refused');
}

describe('a packed request body (C17)', () => {
  it.each([
    { coding: 'gzip', body: gzipSync(text) },
    { coding: 'x-gzip', body: gzipSync(text) },
    { coding: 'GZip', body: gzipSync(text) },
    { coding: 'deflate', body: deflateSync(text) },
    { coding: 'br', body: brotliCompressSync(text) },
    { coding: 'zstd', body: zstdCompressSync(text) },
    { coding: 'identity, gzip', body: gzipSync(text) },
    { coding: 'identity', body: Buffer.from(text) },
    { coding: '', body: Buffer.from(text) },
    { coding: undefined, body: Buffer.from(text) },
  ])('is unpacked: $coding', async ({ coding, body }) => {
    const given = await upload(coding, body);
    expect('body' in given && given.body.toString()).toBe(text);
  });

  it.each(['foo', 'compress', 'gzip;q=1', 'constructor', '*'])(
    'in an unknown coding is 415, with the known ones: %s',
    async (coding) => {
      const error = await refusal(coding, gzipSync(text));
      expect(error).toMatchObject({ status: 415, code: 'UNSUPPORTED_CONTENT_ENCODING' });
      expect(error.message).toContain('gzip, x-gzip, deflate, br, zstd');
      expect(error.message).not.toContain(`"${coding}"`);
      expect(error.headers).toEqual(['accept-encoding', 'gzip, x-gzip, deflate, br, zstd']);
    },
  );

  it.each(['gzip, gzip', 'br,gzip', 'gzip, identity, deflate'])(
    'that is packed twice is 415: %s',
    async (coding) => {
      expect(await refusal(coding, gzipSync(gzipSync(text)))).toMatchObject({
        status: 415,
        code: 'UNSUPPORTED_CONTENT_ENCODING',
      });
    },
  );

  it.each([
    { coding: 'gzip', body: gzipSync(text) },
    { coding: 'deflate', body: deflateSync(text) },
    { coding: 'br', body: brotliCompressSync(text) },
    { coding: 'zstd', body: zstdCompressSync(text) },
  ])('that is cut off or damaged is 400: $coding', async ({ coding, body }) => {
    const damaged = { status: 400, code: 'REQUEST_BODY_DAMAGED' };
    expect(await refusal(coding, body.subarray(0, body.length - 20))).toMatchObject(damaged);
    outcome = Promise.withResolvers();
    expect(await refusal(coding, Buffer.from(text))).toMatchObject(damaged);
  });

  it('may unpack to exactly the limit', async () => {
    const given = await upload('gzip', gzipSync(pseudoRandom(limitBytes)));
    expect('body' in given && given.body.length).toBe(limitBytes);
  });

  it.each([
    { name: 'what comes out of it', body: gzipSync(pseudoRandom(limitBytes + 1)) },
    { name: 'it', body: gzipSync(randomBytes(limitBytes + 1)) },
  ])('is 413 when $name is over the limit', async ({ body }) => {
    const tooLarge = { status: 413, code: 'REQUEST_TOO_LARGE' };
    expect(await refusal('gzip', body)).toMatchObject(tooLarge);
  });

  it('may be a short text of one letter', async () => {
    const given = await upload('gzip', gzipSync(Buffer.alloc(1_048_576, 'a')));
    expect('body' in given && given.body.length).toBe(1_048_576);
  });

  it('that unpacks to far more than its size is 413 before the limit', async () => {
    const error = await refusal('zstd', zstdCompressSync(Buffer.alloc(limitBytes, 'a')));
    expect(error).toMatchObject({ status: 413, code: 'REQUEST_TOO_LARGE' });
    expect(error.message).toContain('200 times');
  });

  it('cannot demand a window that is larger than HTTP allows', async () => {
    // A frame that holds {} as it is, with the window that the sixth byte tells.
    const frame = (window: number): Buffer =>
      Buffer.from([0x28, 0xb5, 0x2f, 0xfd, 0, window, 0x11, 0, 0, 0x7b, 0x7d]);
    const [mb8, mb128] = [0x68, 0x88];
    expect(await refusal('zstd', frame(mb128))).toMatchObject({ status: 400 });
    outcome = Promise.withResolvers();
    expect(await upload('zstd', frame(mb8))).toEqual({ body: Buffer.from('{}') });
  });

  it('that is a bomb takes little memory, and no more of it is read', async () => {
    const bomb = createGzip({ level: 9 });
    const pieces: Buffer[] = [];
    bomb.on('data', (piece: Buffer) => pieces.push(piece));
    const zeros = Buffer.alloc(1_048_576);
    for (let i = 0; i < 256; i++) {
      if (!bomb.write(zeros)) await once(bomb, 'drain');
    }
    bomb.end();
    await once(bomb, 'end');
    const before = process.memoryUsage.rss();
    expect(await refusal('gzip', Buffer.concat(pieces))).toMatchObject({ status: 413 });
    expect(process.memoryUsage.rss() - before).toBeLessThan(limitBytes + 32 * 1_048_576);
  });
});

/** Bytes that pack to about three quarters. */
function pseudoRandom(length: number): Buffer {
  const bytes = Buffer.alloc(length);
  let state = 1;
  for (let i = 0; i < length; i++) {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
    bytes[i] = 32 + ((state >>> 16) & 63);
  }
  return bytes;
}
