import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib';
import { describe, expect, it } from '@jest/globals';
import { type MediaErrorCode } from './media-error.ts';
import {
  failureOf,
  gif,
  image,
  jpeg,
  loopbackFetcher,
  never,
  optionsWith,
  png,
  startOrigin,
  startRawOrigin,
} from './testing.ts';

const mebibyte = 1024 * 1024;

describe('rows 80 to 85: an origin that (C32)', () => {
  it.each<[string, (string | Buffer)[], MediaErrorCode]>([
    [
      'promises 100 bytes and sends 5',
      ['HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhello'],
      'media_truncated',
    ],
    [
      'cuts a chunked body',
      ['HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n'],
      'media_truncated',
    ],
    [
      'cuts an unframed JPEG',
      ['HTTP/1.1 200 OK\r\n\r\n', jpeg().subarray(0, -1)],
      'media_truncated',
    ],
    ['cuts an unframed PNG', ['HTTP/1.1 200 OK\r\n\r\n', png.subarray(0, 40)], 'media_truncated'],
    ['cuts an unframed GIF', ['HTTP/1.1 200 OK\r\n\r\n', gif.subarray(0, -1)], 'media_truncated'],
    [
      'cuts a gzip body',
      ['HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\n', gzipSync(png).subarray(0, -4)],
      'media_truncated',
    ],
    [
      'sends length and chunks',
      ['HTTP/1.1 200 OK\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n'],
      'media_protocol_error',
    ],
    [
      'sends two lengths',
      ['HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nhello'],
      'media_protocol_error',
    ],
    [
      'sends a negative length',
      ['HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\nhello'],
      'media_protocol_error',
    ],
    ['speaks HTTP/0.9', ['<html>hello'], 'media_protocol_error'],
    [
      'sends 40 KB of headers',
      [`HTTP/1.1 200 OK\r\nx: ${'a'.repeat(40_000)}\r\n\r\n`],
      'media_protocol_error',
    ],
    [
      'sends 100 Continue',
      ['HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n'],
      'media_protocol_error',
    ],
    ['closes without an answer', [''], 'media_connect_failed'],
  ])('%s fails', async (_, parts, code) => {
    await using origin = await startRawOrigin((socket) => {
      for (const part of parts) {
        socket.write(part);
      }
      socket.end();
    });
    await using fetcher = loopbackFetcher();
    const failure = await failureOf(() =>
      fetcher.fetch(image(`${origin.base}/a?sig=SECRET`), optionsWith(), never()),
    );
    expect(failure).toMatchObject({ code, stepStatus: 424 });
    expect(failure.message + failure.logDetail).not.toContain('SECRET');
    expect(failure.message).toMatch(/^downloading /);
    await origin.idle();
  });

  it.each([
    ['JPEG', jpeg()],
    ['PNG', png],
    ['GIF', gif],
  ])('[82] frames a whole %s by closing is fine', async (_, body) => {
    await using origin = await startRawOrigin((socket) => {
      socket.write('HTTP/1.1 200 OK\r\n\r\n');
      socket.end(body);
    });
    await using fetcher = loopbackFetcher();
    const result = await fetcher.fetch(image(`${origin.base}/a`), optionsWith(), never());
    expect(result.bytes.equals(body)).toBe(true);
  });

  it('resets the connection within the body fails as truncated', async () => {
    await using origin = await startOrigin((_, response) => {
      response.writeHead(200, { 'content-length': 1000 }).write('x', () => {
        response.socket?.resetAndDestroy();
      });
    });
    await using fetcher = loopbackFetcher();
    const failure = await failureOf(() =>
      fetcher.fetch(image(`${origin.base}/a`), optionsWith(), never()),
    );
    expect(failure).toMatchObject({ code: 'media_truncated', retryable: true });
  });

  it('is not there fails as unreachable', async () => {
    const origin = await startOrigin(() => undefined);
    await origin[Symbol.asyncDispose]();
    await using fetcher = loopbackFetcher();
    const failure = await failureOf(() =>
      fetcher.fetch(image(`${origin.base}/a`), optionsWith(), never()),
    );
    expect(failure).toMatchObject({ code: 'media_connect_failed', stepStatus: 424 });
    expect(failure.message).toMatch(/^downloading /);
  });

  it.each([
    [204, 424],
    [205, 424],
    [206, 424],
    [401, 400],
    [403, 400],
    [404, 400],
    [429, 424],
    [500, 424],
    [503, 424],
  ])('[88, 89] answers %i makes step status %i', async (status, stepStatus) => {
    await using origin = await startOrigin((_, response) => {
      response.writeHead(status, { 'content-type': 'image/png' });
      response.end(status < 206 ? undefined : png);
    });
    await using fetcher = loopbackFetcher();
    const failure = await failureOf(() =>
      fetcher.fetch(image(`${origin.base}/a`), optionsWith(), never()),
    );
    expect(failure).toMatchObject({
      code: 'media_origin_status',
      originStatus: status,
      stepStatus,
    });
  });

  it('[87] answers 206 with the whole range is taken, with a part is not', async () => {
    await using origin = await startOrigin((request, response) => {
      const whole = request.url === '/whole' ? png.length : png.length + 1;
      response.writeHead(206, {
        'content-length': png.length,
        'content-range': `bytes 0-${png.length - 1}/${whole}`,
      });
      response.end(png);
    });
    await using fetcher = loopbackFetcher();
    const fetch = (path: string) =>
      fetcher.fetch(image(origin.base + path), optionsWith(), never());
    expect((await fetch('/whole')).byteLength).toBe(png.length);
    expect((await failureOf(() => fetch('/part'))).originStatus).toBe(206);
  });
});

describe('row 86: a content coding', () => {
  it.each<[string, Buffer]>([
    ['gzip', gzipSync(png)],
    ['x-gzip', gzipSync(png)],
    ['GZIP', gzipSync(png)],
    ['deflate', deflateSync(png)],
    ['br', brotliCompressSync(png)],
    ['identity', png],
  ])('%s is decoded', async (coding, body) => {
    await using origin = await startOrigin((_, response) => {
      response.writeHead(200, { 'content-encoding': coding, 'content-length': body.length });
      response.end(body);
    });
    await using fetcher = loopbackFetcher();
    const result = await fetcher.fetch(image(`${origin.base}/a`), optionsWith(), never());
    expect(result.bytes.equals(png)).toBe(true);
  });

  it.each([
    ['gzip, gzip', gzipSync(gzipSync(png))],
    ['zstd', png],
    ['constructor', png],
    ['gzip', png],
    ['deflate', png],
    ['br', png],
  ])('%s is refused when two, unknown or wrong', async (coding, body) => {
    await using origin = await startOrigin((_, response) => {
      response.writeHead(200, { 'content-encoding': coding }).end(body);
    });
    await using fetcher = loopbackFetcher();
    const failure = await failureOf(() =>
      fetcher.fetch(image(`${origin.base}/a`), optionsWith(), never()),
    );
    expect(failure).toMatchObject({ code: 'media_protocol_error', stepStatus: 424 });
  });

  it.each([
    ['gzip', gzipSync(Buffer.alloc(16 * mebibyte))],
    ['br', brotliCompressSync(Buffer.alloc(16 * mebibyte))],
  ])('%s bomb is cut at the cap', async (coding, body) => {
    await using origin = await startOrigin((_, response) => {
      response.writeHead(200, { 'content-encoding': coding }).end(body);
    });
    await using fetcher = loopbackFetcher();
    const options = optionsWith({ maxDownloadBytes: mebibyte });
    const failure = await failureOf(() =>
      fetcher.fetch(image(`${origin.base}/a`), options, never()),
    );
    expect(failure).toMatchObject({ code: 'media_too_large', limit: mebibyte, stepStatus: 400 });
    expect(failure.actual).toBeLessThan(2 * mebibyte);
    expect(fetcher.stats().bufferedBytes).toBe(0);
  });
});

describe('time', () => {
  const fast = { connectTimeoutMs: 200, dnsTimeoutMs: 200, headersTimeoutMs: 200 };

  it('[73] ends an origin that never answers, within the limit for headers', async () => {
    await using origin = await startOrigin(() => undefined);
    await using fetcher = loopbackFetcher({ limits: fast });
    const failure = await failureOf(() =>
      fetcher.fetch(image(`${origin.base}/a`), optionsWith(), never()),
    );
    expect(failure).toMatchObject({ code: 'media_timeout', stepStatus: 424, retryable: true });
    await origin.idle();
  });

  it('[74] ends headers that drip, at the deadline', async () => {
    await using origin = await startRawOrigin((socket) => {
      socket.write('HTTP/1.1 200 OK\r\n');
      const timer = setInterval(() => socket.write('x: y\r\n'), 20);
      socket.once('close', () => {
        clearInterval(timer);
      });
    });
    await using fetcher = loopbackFetcher();
    const options = optionsWith({ downloadTimeoutMs: 150 });
    const failure = await failureOf(() =>
      fetcher.fetch(image(`${origin.base}/a`), options, never()),
    );
    expect(failure).toMatchObject({ code: 'media_timeout', limit: 150 });
    await origin.idle();
  });

  it('[75] ends a body that stalls', async () => {
    await using origin = await startOrigin((_, response) => {
      response.writeHead(200, { 'content-length': 1000 }).write('xyz');
    });
    await using fetcher = loopbackFetcher({ limits: { idleTimeoutMs: 200 } });
    const failure = await failureOf(() =>
      fetcher.fetch(image(`${origin.base}/a`), optionsWith(), never()),
    );
    expect(failure).toMatchObject({ code: 'media_timeout', retryable: false });
    await origin.idle();
  });

  it.each<[string, object, object]>([
    ['the minimal rate', { minRateWindowMs: 250 }, {}],
    ['the deadline', {}, { downloadTimeoutMs: 250 }],
  ])('[76] ends a body that drips, by %s', async (_, limits, changes) => {
    await using origin = await startOrigin((_request, response) => {
      response.writeHead(200, { 'content-length': 1000 });
      const timer = setInterval(() => response.write('x'), 20);
      response.once('close', () => {
        clearInterval(timer);
      });
    });
    await using fetcher = loopbackFetcher({ limits });
    const failure = await failureOf(() =>
      fetcher.fetch(image(`${origin.base}/a`), optionsWith(changes), never()),
    );
    expect(failure).toMatchObject({ code: 'media_timeout', stepStatus: 424 });
    await origin.idle();
  });

  it('spans all redirects', async () => {
    await using origin = await startOrigin((request, response) => {
      setTimeout(() => {
        response.writeHead(302, { location: `${request.url}x` }).end();
      }, 60);
    });
    await using fetcher = loopbackFetcher();
    const options = optionsWith({ downloadTimeoutMs: 200 });
    const failure = await failureOf(() =>
      fetcher.fetch(image(`${origin.base}/a`), options, never()),
    );
    expect(failure.code).toBe('media_timeout');
  });

  it('[7, queue full] that is spent in our own queue is an overload', async () => {
    await using origin = await startOrigin(() => undefined);
    await using fetcher = loopbackFetcher({ limits: { globalMaxDownloads: 1 } });
    const leaving = new AbortController();
    const first = failureOf(() =>
      fetcher.fetch(image(`${origin.base}/a`), optionsWith(), leaving.signal),
    );
    const options = optionsWith({ downloadTimeoutMs: 50 });
    const second = await failureOf(() =>
      fetcher.fetch(image(`${origin.base}/b`), options, never()),
    );
    expect(second).toMatchObject({ code: 'media_overloaded', stepStatus: 503 });
    leaving.abort();
    await first;
  });
});
