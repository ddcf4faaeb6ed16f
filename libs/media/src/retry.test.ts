import { type RequestListener } from 'node:http';
import { describe, expect, it } from '@jest/globals';
import { retryAfterMs } from './retry.ts';
import {
  failureOf,
  image,
  jpeg,
  loopbackFetcher,
  never,
  optionsWith,
  png,
  startOrigin,
  startRawOrigin,
} from './testing.ts';

const limits = { retryPauseMs: 5 };

/** An origin whose first requests are answered by `fail`, and all later ones with a picture. */
function failingFirst(fail: RequestListener, failures = 1): RequestListener & { asked: number } {
  const listener: RequestListener & { asked: number } = Object.assign(
    ((request, response) => {
      listener.asked += 1;
      if (listener.asked <= failures) fail(request, response);
      else response.end(png);
    }) satisfies RequestListener,
    { asked: 0 },
  );
  return listener;
}

const status =
  (code: number, headers: Record<string, string> = {}): RequestListener =>
  (_, response) => {
    response.writeHead(code, headers).end('not now');
  };

describe('another attempt', () => {
  it.each<[string, RequestListener]>([
    ['7, 89: 408', status(408)],
    ['7, 89: 425', status(425)],
    ['7, 89: 429', status(429)],
    ['7, 89: 429 + Retry-After 0', status(429, { 'retry-after': '0' })],
    ['7, 89: 500', status(500)],
    ['7, 89: 503', status(503)],
    ['7: a reset before any header', (request) => request.socket.resetAndDestroy()],
    [
      '7, 80: a body shorter than its length',
      (_, response) => {
        response.writeHead(200, { 'content-length': 100 }).write('hello', () => {
          response.socket?.destroy();
        });
      },
    ],
    [
      '7, 81: a chunked body that is cut',
      (_, response) => {
        response.write(png.subarray(0, 20), () => {
          response.socket?.destroy();
        });
      },
    ],
  ])('follows on %s', async (_, fail) => {
    const listener = failingFirst(fail);
    await using origin = await startOrigin(listener);
    await using fetcher = loopbackFetcher({ limits });
    const result = await fetcher.fetch(image(`${origin.base}/a`), optionsWith(), never());
    expect(result.bytes.equals(png)).toBe(true);
    expect(listener.asked).toBe(2);
    expect(fetcher.stats()).toEqual({ activeDownloads: 0, queuedDownloads: 0, bufferedBytes: 0 });
  });

  it.each<[string, RequestListener, string]>([
    ['7, 89: 404', status(404), 'media_origin_status'],
    ['7, 89: 403', status(403), 'media_origin_status'],
    ['7, 88: 204', status(204), 'media_origin_status'],
    ['7, 69: 300', status(300), 'media_origin_status'],
    ['7, 66: a redirect to nowhere', status(302), 'media_redirect_invalid'],
    [
      '7, 97: HTML with 200',
      (_, response) => response.end('<!doctype html>'),
      'media_type_not_allowed',
    ],
    ['7, 88: nothing with 200', (_, response) => response.end(), 'media_content_invalid'],
    ['7, 77: too large', (_, response) => response.end(Buffer.alloc(2000)), 'media_too_large'],
    [
      '7, 86: a coding that nobody asked for',
      status(200, { 'content-encoding': 'zstd' }),
      'media_protocol_error',
    ],
  ])('does not follow on %s', async (_, fail, code) => {
    const listener = failingFirst(fail);
    await using origin = await startOrigin(listener);
    await using fetcher = loopbackFetcher({ limits });
    const options = optionsWith({ maxDownloadBytes: 1000 });
    const failure = await failureOf(() =>
      fetcher.fetch(image(`${origin.base}/a`), options, never()),
    );
    expect(failure.code).toBe(code);
    expect(listener.asked).toBe(1);
  });

  it('7: does not follow on a body that stalls or drips', async () => {
    const listener = failingFirst((_, response) => {
      response.writeHead(200, { 'content-length': 1000 }).write('xyz');
    });
    await using origin = await startOrigin(listener);
    await using fetcher = loopbackFetcher({ limits: { ...limits, idleTimeoutMs: 100 } });
    const failure = await failureOf(() =>
      fetcher.fetch(image(`${origin.base}/a`), optionsWith(), never()),
    );
    expect(failure).toMatchObject({ code: 'media_timeout', retryable: false });
    expect(listener.asked).toBe(1);
  });

  it('is the last one: the origin sees two requests and the caller the second failure', async () => {
    const listener = failingFirst(status(503), 9);
    await using origin = await startOrigin(listener);
    await using fetcher = loopbackFetcher({ limits });
    const failure = await failureOf(() =>
      fetcher.fetch(image(`${origin.base}/a`), optionsWith(), never()),
    );
    expect(failure).toMatchObject({
      code: 'media_origin_status',
      originStatus: 503,
      stepStatus: 424,
    });
    expect(listener.asked).toBe(2);
  });

  it('82: follows on an unframed JPEG that is cut, and counts its bytes once', async () => {
    let asked = 0;
    await using origin = await startRawOrigin((socket) => {
      asked += 1;
      socket.write('HTTP/1.1 200 OK\r\n\r\n');
      socket.end(asked === 1 ? jpeg().subarray(0, -1) : jpeg());
    });
    await using fetcher = loopbackFetcher({ limits });
    const options = optionsWith({ maxTotalDownloadBytes: jpeg().length });
    const result = await fetcher.fetch(image(`${origin.base}/a`), options, never());
    expect(result.bytes.equals(jpeg())).toBe(true);
    expect(asked).toBe(2);
  });

  it('does not begin when the time that the origin asks for is not left', async () => {
    const listener = failingFirst(status(429, { 'retry-after': '11' }));
    await using origin = await startOrigin(listener);
    await using fetcher = loopbackFetcher();
    const startedAt = performance.now();
    const failure = await failureOf(() =>
      fetcher.fetch(image(`${origin.base}/a`), optionsWith(), never()),
    );
    expect(failure).toMatchObject({ originStatus: 429, stepStatus: 424, retryAfterMs: 11_000 });
    expect(performance.now() - startedAt).toBeLessThan(5_000);
    expect(listener.asked).toBe(1);
  });

  it('89: waits as long as the origin asks, and its time is that of the item', async () => {
    const times: number[] = [];
    await using origin = await startOrigin((_, response) => {
      times.push(performance.now());
      if (times.length === 1) response.writeHead(429, { 'retry-after': '1' }).end();
      else response.end(png);
    });
    const told: string[] = [];
    await using fetcher = loopbackFetcher({
      limits,
      onDownload: ({ result }) => told.push(result),
    });
    await fetcher.fetch(image(`${origin.base}/a`), optionsWith(), never());
    const [first = 0, second = 0] = times;
    expect(second - first).toBeGreaterThanOrEqual(990);
    expect(told).toEqual(['success']);
  });

  it('is given up by a caller that leaves while it is waited for', async () => {
    const leaving = new AbortController();
    const listener = failingFirst((request, response) => {
      response.once('close', () => {
        setImmediate(() => {
          leaving.abort();
        });
      });
      status(429, { 'retry-after': '5' })(request, response);
    });
    await using origin = await startOrigin(listener);
    await using fetcher = loopbackFetcher();
    const failure = await failureOf(() =>
      fetcher.fetch(image(`${origin.base}/a`), optionsWith(), leaving.signal),
    );
    expect(failure.code).toBe('media_cancelled');
    expect(listener.asked).toBe(1);
  });

  it('47: follows on a resolver in trouble, and not on a name that does not exist', async () => {
    const lookups: string[] = [];
    await using fetcher = loopbackFetcher({
      limits,
      resolve: (name) => {
        lookups.push(name);
        const code = name === 'gone.test' ? 'ENOTFOUND' : 'EAI_AGAIN';
        return Promise.reject(Object.assign(new Error(code), { code }));
      },
    });
    for (const name of ['gone.test', 'busy.test']) {
      const failure = await failureOf(() =>
        fetcher.fetch(image(`http://${name}/`), optionsWith(), never()),
      );
      expect(failure.code).toBe('media_dns_failed');
    }
    expect(lookups).toEqual(['gone.test', 'busy.test', 'busy.test']);
  });
});

describe('Retry-After', () => {
  it.each<[string | undefined, number | undefined]>([
    ['0', 0],
    [' 3 ', 3000],
    ['Thu, 01 Jan 1970 00:00:00 GMT', 0],
    ['-1', undefined],
    ['1.5', undefined],
    ['soon', undefined],
    ['2026', 2_026_000],
    ['', undefined],
    [undefined, undefined],
  ])('of %j is %j ms', (header, expected) => {
    expect(retryAfterMs(header)).toBe(expected);
  });

  it('may be a date', () => {
    const soon = new Date(Date.now() + 30_000).toUTCString();
    expect(retryAfterMs(soon)).toBeGreaterThan(28_000);
    expect(retryAfterMs(soon)).toBeLessThanOrEqual(30_000);
  });
});
