import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from '@jest/globals';
import { parseAllowedDomains } from './domain-rules.ts';
import { type EndedDownload } from './ended-download.ts';
import { MediaFetcher } from './media-fetcher.ts';
import { type MediaFetchOptions, type Modality } from './options.ts';
import {
  failureOf,
  gif,
  image,
  jpeg,
  loopbackFetcher,
  never,
  optionsWith,
  png,
  pngOf,
  startOrigin,
} from './testing.ts';

const mebibyte = 1024 * 1024;

describe('onDownload', () => {
  /** What a fetcher tells of its downloads while `work` runs. */
  async function told(work: (fetcher: MediaFetcher) => Promise<unknown>): Promise<EndedDownload[]> {
    const downloads: EndedDownload[] = [];
    const onDownload = (download: EndedDownload): void => void downloads.push(download);
    await using fetcher = loopbackFetcher({ onDownload });
    await work(fetcher).catch(() => undefined);
    return downloads;
  }

  it('is told of a download with the time to its headers and to its end', async () => {
    await using origin = await startOrigin((_, response) => response.end(png));
    const url = image(`${origin.base}/a`);
    const [download, ...others] = await told((fetcher) =>
      fetcher.fetchMany([url, url], optionsWith(), never()),
    );
    expect(download).toMatchObject({ result: 'success', headersMs: expect.any(Number) });
    expect(download?.durationMs).toBeGreaterThanOrEqual(download?.headersMs ?? Infinity);
    expect(others).toEqual([]);
  });

  it('is told of a download that failed', async () => {
    await using origin = await startOrigin((_, response) => response.writeHead(500).end());
    const downloads = await told((fetcher) =>
      fetcher.fetchMany([image(origin.base)], optionsWith(), never()),
    );
    expect(downloads).toEqual([
      { result: 'error', headersMs: undefined, durationMs: expect.any(Number) },
    ]);
  });

  it('is told of a download whose caller left', async () => {
    const leaving = new AbortController();
    await using origin = await startOrigin(() => leaving.abort());
    const downloads = await told((fetcher) =>
      fetcher.fetchMany([image(origin.base)], optionsWith(), leaving.signal),
    );
    expect(downloads).toMatchObject([{ result: 'cancelled' }]);
  });

  it('is not told of what needs no network or must not reach it', async () => {
    const data = image(`data:image/png;base64,${png.toString('base64')}`);
    expect(await told((fetcher) => fetcher.fetchMany([data], optionsWith(), never()))).toEqual([]);
    const downloads: EndedDownload[] = [];
    await using fetcher = loopbackFetcher({
      resolve: () => Promise.resolve([{ address: '10.0.0.1', family: 4 }]),
      onDownload: (download) => void downloads.push(download),
    });
    const blocked = fetcher.fetchMany([image('http://inside.example/a')], optionsWith(), never());
    await expect(blocked).rejects.toMatchObject({ code: 'media_address_blocked' });
    expect(downloads).toEqual([]);
  });
});

describe('fetching several references', () => {
  it('[127] answers in order and downloads equal references once', async () => {
    const paths: (string | undefined)[] = [];
    await using origin = await startOrigin((request, response) => {
      paths.push(request.url);
      response.setHeader('content-type', 'image/x-whatever');
      response.end(request.url === '/a' ? png : gif);
    });
    await using fetcher = loopbackFetcher();
    const refs = ['/a', '/b', '/a', '/a'].map((path) => image(origin.base + path));
    const results = await fetcher.fetchMany(refs, optionsWith(), never());
    expect(results.map((result) => result.contentType)).toEqual([
      ...['image/png', 'image/gif', 'image/png', 'image/png'],
    ]);
    expect(results[0]).toBe(results[2]);
    expect(results[0]?.bytes.equals(png)).toBe(true);
    expect(results[0]).toMatchObject({ byteLength: png.length, width: 1, height: 1 });
    expect(results[1]?.base64().toString()).toBe(gif.toString('base64'));
    expect(results[1]?.dataUri()).toBe(`data:image/gif;base64,${gif.toString('base64')}`);
    expect(paths.sort()).toEqual(['/a', '/b']);
  });

  it('takes data URIs among the references', async () => {
    await using fetcher = loopbackFetcher();
    const url = `data:image/png;base64,${png.toString('base64')}`;
    const [result] = await fetcher.fetchMany([image(url)], optionsWith(), never());
    expect(result?.bytes.equals(png)).toBe(true);
    expect(await fetcher.fetchMany([], optionsWith(), never())).toEqual([]);
  });

  it('[129] reports the lowest static failure before any network', async () => {
    await using origin = await startOrigin((_, response) => response.end(png));
    await using fetcher = loopbackFetcher();
    const refs = [`${origin.base}/a`, 'data:image/png;base64,!', 'ftp://example.com/'].map(image);
    const failure = await failureOf(() => fetcher.fetchMany(refs, optionsWith(), never()));
    expect(failure).toMatchObject({ code: 'media_data_uri_invalid', index: 1 });
    expect(origin.connections()).toBe(0);
  });

  it('aborts the others at the first failure and says which one it was', async () => {
    await using origin = await startOrigin((request, response) => {
      if (request.url === '/missing') {
        response.writeHead(404, { connection: 'close' }).end('SECRET');
      } else {
        response.writeHead(200, { 'content-type': 'image/png' }).write(png); // never ends
      }
    });
    await using fetcher = loopbackFetcher();
    const refs = ['/slow', '/missing', '/slower'].map((path) => image(origin.base + path));
    const failure = await failureOf(() => fetcher.fetchMany(refs, optionsWith(), never()));
    expect(failure).toMatchObject({
      code: 'media_origin_status',
      originStatus: 404,
      stepStatus: 400,
      index: 1,
    });
    expect(failure.message + failure.logDetail).not.toContain('SECRET');
    expect(failure.message).toMatch(/^downloading /);
    await origin.idle();
    expect(fetcher.stats()).toEqual({ activeDownloads: 0, queuedDownloads: 0, bufferedBytes: 0 });
  });

  it('keeps to its concurrency', async () => {
    let open = 0;
    let most = 0;
    await using origin = await startOrigin((_, response) => {
      open += 1;
      most = Math.max(most, open);
      setImmediate(() => {
        open -= 1;
        response.end(png);
      });
    });
    await using fetcher = loopbackFetcher();
    const refs = Array.from({ length: 12 }, (_, i) => image(`${origin.base}/${i}`));
    const options = optionsWith({ maxConcurrentDownloads: 3 });
    expect(await fetcher.fetchMany(refs, options, never())).toHaveLength(12);
    expect(most).toBeLessThanOrEqual(3);
  });

  it('bounds all items together, counting repeated and inline ones', async () => {
    await using origin = await startOrigin((request, response) => {
      if (request.url === '/chunked') {
        response.write(png);
      }
      response.end(png);
    });
    await using fetcher = loopbackFetcher();
    const size = png.length;
    const ask = (paths: string[], maxTotalDownloadBytes: number, inlineBytes = 0) =>
      fetcher.fetchMany(
        paths.map((path) => image(origin.base + path)),
        optionsWith({ maxTotalDownloadBytes, inlineBytes }),
        never(),
      );
    const code = 'media_total_too_large';
    expect(await ask(['/a', '/b', '/a'], 3 * size)).toHaveLength(3);
    expect(await failureOf(() => ask(['/a', '/b', '/a'], 3 * size - 1))).toMatchObject({ code });
    expect(await failureOf(() => ask(['/a', '/b'], 3 * size, size + 1))).toMatchObject({ code });
    expect(await failureOf(() => ask(['/chunked'], 2 * size - 1))).toMatchObject({
      code,
      limit: 2 * size - 1,
      actual: 2 * size,
    });
  });
});

describe('the size of one item', () => {
  it.each(['length', 'chunks'])('[79, U30] may be exactly the cap, told by %s', async (framing) => {
    const body = Buffer.concat([png, Buffer.alloc(mebibyte - png.length)]);
    await using origin = await startOrigin((_, response) => {
      if (framing === 'chunks') {
        response.write(body.subarray(0, 1000));
        response.end(body.subarray(1000));
      } else {
        response.end(body);
      }
    });
    await using fetcher = loopbackFetcher();
    const options = optionsWith({ maxDownloadBytes: mebibyte });
    const result = await fetcher.fetch(image(`${origin.base}/a`), options, never());
    expect(result.bytes.equals(body)).toBe(true);
  });

  it('[77, U29] is refused by its Content-Length before the body', async () => {
    await using origin = await startOrigin((_, response) => {
      response.writeHead(200, { 'content-length': mebibyte + 1 }).write('x');
    });
    await using fetcher = loopbackFetcher();
    const options = optionsWith({ maxDownloadBytes: mebibyte });
    const failure = await failureOf(() =>
      fetcher.fetch(image(`${origin.base}/a`), options, never()),
    );
    expect(failure).toMatchObject({
      code: 'media_too_large',
      limit: mebibyte,
      actual: mebibyte + 1,
    });
    await origin.idle();
  });

  it('[78, U28] is counted while an endless body arrives, and the socket is closed', async () => {
    let sent = 0;
    await using origin = await startOrigin((_, response) => {
      const chunk = Buffer.alloc(64 * 1024);
      const send = (): void => {
        while (!response.destroyed && response.write(chunk)) {
          sent += chunk.length;
        }
      };
      response.on('drain', send);
      send();
    });
    await using fetcher = loopbackFetcher();
    const options = optionsWith({ maxDownloadBytes: mebibyte });
    const failure = await failureOf(() =>
      fetcher.fetch(image(`${origin.base}/a`), options, never()),
    );
    expect(failure.code).toBe('media_too_large');
    await origin.idle();
    expect(sent).toBeLessThan(64 * mebibyte);
    expect(fetcher.stats().bufferedBytes).toBe(0);
  });

  it('is never more than the whole memory', async () => {
    await using origin = await startOrigin((_, response) => response.end(Buffer.alloc(2000)));
    await using fetcher = loopbackFetcher({ limits: { globalMaxBufferedBytes: 1000 } });
    const failure = await failureOf(() =>
      fetcher.fetch(image(`${origin.base}/a`), optionsWith(), never()),
    );
    expect(failure).toMatchObject({ code: 'media_too_large', limit: 1000 });
  });
});

describe('the limits of the process', () => {
  it('[141] refuse one call more than the queue holds and serve the rest', async () => {
    const { promise: opened, resolve: open } = Promise.withResolvers<void>();
    await using origin = await startOrigin((_, response) => {
      void opened.then(() => response.end(png));
    });
    await using fetcher = loopbackFetcher({
      limits: { globalMaxDownloads: 1, globalMaxQueuedDownloads: 1 },
    });
    const ask = (path: string) => fetcher.fetch(image(origin.base + path), optionsWith(), never());
    const first = ask('/1');
    const second = ask('/2');
    expect(fetcher.stats()).toMatchObject({ activeDownloads: 1, queuedDownloads: 1 });
    const third = await failureOf(() => ask('/3'));
    expect(third).toMatchObject({ code: 'media_overloaded', stepStatus: 503, retryable: true });
    open();
    expect((await Promise.all([first, second])).map((result) => result.byteLength)).toEqual([
      ...[png.length, png.length],
    ]);
  });

  it('make a body wait for memory and release it with the result', async () => {
    const body = Buffer.concat([png, Buffer.alloc(600)]);
    await using origin = await startOrigin((request, response) => {
      response.write(body.subarray(0, 10));
      if (request.url !== '/held') {
        response.end(body.subarray(10));
      }
    });
    await using fetcher = loopbackFetcher({ limits: { globalMaxBufferedBytes: 1000 } });
    const leaving = new AbortController();
    const held = failureOf(() =>
      fetcher.fetch(image(`${origin.base}/held`), optionsWith(), leaving.signal),
    );
    while (fetcher.stats().bufferedBytes === 0) {
      await new Promise(setImmediate);
    }
    const waiting = fetcher.fetch(image(`${origin.base}/a`), optionsWith(), never());
    leaving.abort();
    expect((await held).code).toBe('media_cancelled');
    expect((await waiting).byteLength).toBe(body.length);
    expect(fetcher.stats().bufferedBytes).toBe(0);
  });

  it('end a body that broke off while it waited for memory', async () => {
    await using origin = await startOrigin((request, response) => {
      if (request.url === '/held') response.write(png);
      else {
        response.writeHead(200, { 'content-length': 700 });
        response.write(png, () => response.destroy());
      }
    });
    const limits = { globalMaxBufferedBytes: 1000, maxRetries: 0 };
    await using fetcher = loopbackFetcher({ limits });
    const leaving = new AbortController();
    const held = failureOf(() =>
      fetcher.fetch(image(`${origin.base}/held`), optionsWith(), leaving.signal),
    );
    while (fetcher.stats().bufferedBytes === 0) await new Promise(setImmediate);
    const cut = failureOf(() => fetcher.fetch(image(`${origin.base}/`), optionsWith(), never()));
    // Enough for its end to arrive; less would show nothing.
    await sleep(50);
    leaving.abort();
    expect((await cut).code).toBe('media_truncated');
    expect((await held).code).toBe('media_cancelled');
    expect(fetcher.stats()).toMatchObject({ activeDownloads: 0, bufferedBytes: 0 });
  });
});

describe('a caller that leaves', () => {
  it('gets a cancellation before anything is looked at', async () => {
    await using fetcher = loopbackFetcher();
    const failure = await failureOf(() =>
      fetcher.fetchMany([image('data:nonsense')], optionsWith(), AbortSignal.abort()),
    );
    expect(failure).toMatchObject({ code: 'media_cancelled', stepStatus: 499 });
  });

  it.each(['lookup', 'headers', 'body'])('[90] ends the download during %s', async (phase) => {
    const leaving = new AbortController();
    await using origin = await startOrigin((_, response) => {
      if (phase === 'body') {
        response.writeHead(200, { 'content-length': 1000 }).write(png);
      }
      setImmediate(() => {
        leaving.abort();
      });
    });
    const { promise: silence, resolve: answer } =
      Promise.withResolvers<{ address: string; family: 4 }[]>();
    await using fetcher = loopbackFetcher({
      resolve: () => {
        if (phase !== 'lookup') {
          return Promise.resolve([{ address: '127.0.0.1', family: 4 }]);
        }
        setImmediate(() => {
          leaving.abort();
        });
        return silence;
      },
    });
    const failure = await failureOf(() =>
      fetcher.fetch(image(`http://media.test:${origin.port}/a`), optionsWith(), leaving.signal),
    );
    expect(failure.code).toBe('media_cancelled');
    answer([{ address: '127.0.0.1', family: 4 }]);
    if (phase !== 'lookup') {
      await origin.idle();
    }
    expect(fetcher.stats()).toEqual({ activeDownloads: 0, queuedDownloads: 0, bufferedBytes: 0 });
  });
});

describe('a request to an origin', () => {
  it('[93, 94] carries constant headers, nothing of the client, and the path as it was written', async () => {
    await using origin = await startOrigin((request, response) => {
      response.end(png);
      seen.push({ url: request.url, method: request.method, headers: request.rawHeaders });
    });
    const seen: object[] = [];
    await using fetcher = loopbackFetcher({ userAgent: 'tester/1 (+https://example.com/contact)' });
    await fetcher.fetch(image(`${origin.base}/a%2Fb?x=%2F&y=a+b#frag`), optionsWith(), never());
    expect(seen).toEqual([
      {
        method: 'GET',
        url: '/a%2Fb?x=%2F&y=a+b',
        headers: [
          ...['host', `127.0.0.1:${origin.port}`, 'connection', 'keep-alive'],
          ...['user-agent', 'tester/1 (+https://example.com/contact)'],
          ...['accept', 'image/png,image/jpeg,image/webp,image/gif,*/*;q=0.1'],
          ...['accept-encoding', 'identity'],
        ],
      },
    ]);
  });

  it('uses a checked socket again', async () => {
    await using origin = await startOrigin((_, response) => response.end(png));
    await using fetcher = loopbackFetcher();
    for (const path of ['/1', '/2', '/3', '/4', '/5']) {
      await fetcher.fetch(image(origin.base + path), optionsWith(), never());
    }
    // A second one, when the next request comes before the first socket is free again.
    expect(origin.connections()).toBeLessThanOrEqual(2);
  });

  it('never shares a socket between callers with and without private networks', async () => {
    const connected: string[] = [];
    await using origin = await startOrigin((_, response) => response.end(png));
    await using fetcher = loopbackFetcher({
      resolve: (hostname) => {
        connected.push(hostname);
        return Promise.resolve([{ address: '127.0.0.1', family: 4 }]);
      },
    });
    const ref = image(`http://media.test:${origin.port}/a`);
    await fetcher.fetch(ref, optionsWith({ allowPrivateNetworks: true }), never());
    await fetcher.fetch(ref, optionsWith({ allowPrivateNetworks: false }), never());
    expect(connected).toHaveLength(2);
    expect(origin.connections()).toBe(2);
  });
});

describe('the content of a download (C29)', () => {
  it.each<[string, Buffer, Record<string, string>, string]>([
    ['a JPEG as text/plain', jpeg(), { 'content-type': 'text/plain' }, 'image/jpeg'],
    ['a PNG as binary/octet-stream', png, { 'content-type': 'binary/octet-stream' }, 'image/png'],
    ['a PNG as image/jpeg', png, { 'content-type': 'image/jpeg' }, 'image/png'],
    ['a PNG with a charset', png, { 'content-type': 'image/png; charset=utf-8' }, 'image/png'],
    ['a PNG without type', png, {}, 'image/png'],
    ['a type with a marker inside', png, { 'content-type': 'image/png;base64,AAAA' }, 'image/png'],
    [
      'unknown bytes as image/jpeg',
      Buffer.from('jpeg-bytes'),
      { 'content-type': 'image/jpeg' },
      'image/jpeg',
    ],
    ['unknown bytes without type', Buffer.from('bytes'), {}, 'application/octet-stream'],
    ['a polyglot', Buffer.concat([jpeg(), Buffer.from('PK\x03\x04<script>')]), {}, 'image/jpeg'],
    [
      'a page that refreshes itself, ignored for an image',
      png,
      { refresh: '0; url=http://127.0.0.1/' },
      'image/png',
    ],
  ])('[95, 96, 101, 106] %s passes with unchanged bytes', async (_, body, headers, contentType) => {
    await using origin = await startOrigin((_request, response) => {
      response.writeHead(200, headers).end(body);
    });
    await using fetcher = loopbackFetcher();
    const result = await fetcher.fetch(image(`${origin.base}/a`), optionsWith(), never());
    expect(result.contentType).toBe(contentType);
    expect(result.bytes.equals(body)).toBe(true);
  });

  it.each<[string, string, string, string]>([
    ['HTML as image/png', '<!doctype html>', 'image/png', 'media_type_not_allowed'],
    ['SVG as image/png', '<svg/>', 'image/png', 'media_type_not_allowed'],
    ['PDF as image/png', '%PDF-1.7', 'image/png', 'media_type_not_allowed'],
    ['unknown bytes as text/html', 'hello', 'text/html', 'media_type_not_allowed'],
    ['nothing', '', 'image/png', 'media_content_invalid'],
  ])('%s is refused', async (_, body, contentType, code) => {
    await using origin = await startOrigin((_request, response) => {
      response.writeHead(200, { 'content-type': contentType }).end(body);
    });
    await using fetcher = loopbackFetcher();
    const failure = await failureOf(() =>
      fetcher.fetch(image(`${origin.base}/a`), optionsWith(), never()),
    );
    expect(failure).toMatchObject({ code, stepStatus: 400 });
    const off = optionsWith({ contentCheck: 'off' });
    const result = await fetcher.fetch(image(`${origin.base}/a`), off, never());
    expect(result.contentType).toBe(contentType);
  });
});

describe('content checks beside the default', () => {
  const fetchWith = async (
    body: Buffer,
    changes: Partial<MediaFetchOptions>,
    modality: Modality = 'image',
  ) => {
    await using origin = await startOrigin((_, response) => response.end(body));
    await using fetcher = loopbackFetcher();
    const ref = { url: `${origin.base}/a`, modality };
    return await fetcher.fetch(ref, optionsWith(changes), never());
  };

  it('pass a picture without end in sniff and refuse it in strict', async () => {
    const cut = jpeg().subarray(0, -2);
    expect((await fetchWith(cut, {})).bytes.equals(cut)).toBe(true);
    const failure = await failureOf(() => fetchWith(cut, { contentCheck: 'strict' }));
    expect(failure).toMatchObject({ code: 'media_content_invalid', stepStatus: 400 });
    expect((await fetchWith(jpeg(), { contentCheck: 'strict' })).width).toBe(3);
  });

  it('[103] refuse a header of too many pixels before anybody decodes it', async () => {
    const failure = await failureOf(() => fetchWith(pngOf(60_000, 60_000), {}));
    expect(failure).toMatchObject({ code: 'media_dimensions_exceeded', limit: 50_000_000 });
  });

  it('take a type that the operator added', async () => {
    const avif = Buffer.from('\0\0\0\x1cftypavif', 'latin1');
    const allowedImageTypes = ['image/avif'];
    expect((await fetchWith(avif, { allowedImageTypes })).contentType).toBe('image/avif');
    expect((await failureOf(() => fetchWith(avif, {}))).code).toBe('media_type_not_allowed');
  });

  it('decide audio by the list for audio', async () => {
    const wav = Buffer.from('RIFF\0\0\0\0WAVE', 'latin1');
    expect((await fetchWith(wav, {}, 'audio')).contentType).toBe('audio/wav');
    expect((await failureOf(() => fetchWith(png, {}, 'audio'))).code).toBe(
      'media_type_not_allowed',
    );
  });
});

describe('a fetcher', () => {
  it('checks a URL without network', async () => {
    await using fetcher = loopbackFetcher();
    const listed = optionsWith({ allowedDomains: parseAllowedDomains(['example.com']) });
    expect(() => {
      fetcher.checkUrl('http://example.com/a', listed);
      fetcher.checkUrl(`data:image/png;base64,${png.toString('base64')}`);
    }).not.toThrow();
    const failure = await failureOf(() => {
      fetcher.checkUrl('http://example.net/a', listed);
    });
    expect(failure.code).toBe('media_host_not_allowed');
  });

  it('blocks loopback, private and metadata addresses as it is built by default', async () => {
    const fetcher = new MediaFetcher();
    for (const url of [
      'http://127.0.0.1:8080/',
      'http://10.0.0.1/',
      'http://169.254.169.254/',
      'http://localhost:8080/',
    ]) {
      const failure = await failureOf(() => fetcher.fetch(image(url), optionsWith(), never()));
      expect(failure.stepStatus).toBe(400);
    }
    await fetcher.close();
  });

  it('finishes what runs and refuses what comes when it closes', async () => {
    const { promise: opened, resolve: open } = Promise.withResolvers<void>();
    const { promise: asked, resolve: ask } = Promise.withResolvers<void>();
    await using origin = await startOrigin((_, response) => {
      ask();
      void opened.then(() => response.end(png));
    });
    const fetcher = new MediaFetcher({ testOnlyAllowLoopback: true });
    // The second has not been asked for when the fetcher closes, yet it belongs to what runs.
    const refs = ['/a', '/b'].map((path) => image(origin.base + path));
    const oneByOne = optionsWith({ maxConcurrentDownloads: 1 });
    const running = fetcher.fetchMany(refs, oneByOne, never());
    await asked;
    const closed = fetcher.close();
    const late = await failureOf(() =>
      fetcher.fetch(image(`${origin.base}/b`), optionsWith(), never()),
    );
    expect(late).toMatchObject({ code: 'media_overloaded', stepStatus: 503 });
    open();
    expect(await running).toHaveLength(2);
    await closed;
  });

  it('refuses a malformed CIDR at construction', () => {
    expect(() => new MediaFetcher({ blockedCidrs: ['nonsense'] })).toThrow(/expected a CIDR/);
  });
});
