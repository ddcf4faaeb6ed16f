import { deflateSync } from 'node:zlib';
import { describe, expect, it } from '@jest/globals';
import { type MediaErrorCode } from './media-error.ts';
import { type ContentCheck } from './options.ts';
import {
  failureOf,
  image,
  jpeg,
  loopbackFetcher,
  never,
  optionsWith,
  png,
  pngOf,
  startMuteOrigin,
  startOrigin,
  startRawOrigin,
} from './testing.ts';

// Rows of media-fetcher.md 8 that have no test beside the code that they are about.

const mebibyte = 1024 * 1024;
const bytes = (text: string): Buffer => Buffer.from(text, 'latin1');

describe('row 72', () => {
  it('a Refresh header is not followed', async () => {
    const asked: (string | undefined)[] = [];
    await using origin = await startOrigin((request, response) => {
      asked.push(request.url);
      response.setHeader('refresh', '0; url=/other').end(png);
    });
    await using fetcher = loopbackFetcher();
    const result = await fetcher.fetch(image(`${origin.base}/a`), optionsWith(), never());
    expect(result.bytes.equals(png)).toBe(true);
    expect(asked).toEqual(['/a']);
  });

  it('a page with a meta refresh is refused, not followed', async () => {
    const asked: (string | undefined)[] = [];
    await using origin = await startOrigin((request, response) => {
      asked.push(request.url);
      response.setHeader('content-type', 'text/html');
      response.end('<html><meta http-equiv="refresh" content="0; url=/other">');
    });
    await using fetcher = loopbackFetcher();
    const failure = await failureOf(() =>
      fetcher.fetch(image(`${origin.base}/a`), optionsWith(), never()),
    );
    expect(failure.code).toBe('media_type_not_allowed');
    expect(asked).toEqual(['/a']);
  });
});

describe('row 85', () => {
  it('a flood of 103 does not outlast the deadline', async () => {
    await using origin = await startRawOrigin((socket) => {
      const flood = (): void => {
        if (socket.writable) socket.write('HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n', flood);
      };
      flood();
    });
    await using fetcher = loopbackFetcher();
    const options = optionsWith({ downloadTimeoutMs: 300 });
    const failure = await failureOf(() =>
      fetcher.fetch(image(`${origin.base}/a`), options, never()),
    );
    expect(['media_timeout', 'media_protocol_error']).toContain(failure.code);
    await origin.idle();
  });
});

describe('row 90 and failure "connect slow"', () => {
  it('a caller that leaves while a connection is made is let go at once', async () => {
    await using origin = await startMuteOrigin();
    await using fetcher = loopbackFetcher();
    const leaving = new AbortController();
    const fetched = failureOf(() =>
      fetcher.fetch(image(`${origin.base}/a`), optionsWith(), leaving.signal),
    );
    setImmediate(() => {
      leaving.abort();
    });
    expect((await fetched).code).toBe('media_cancelled');
  });

  it('a connection that does not come is a timeout, and tried again within the deadline', async () => {
    await using origin = await startMuteOrigin();
    await using fetcher = loopbackFetcher({ limits: { connectTimeoutMs: 100, retryPauseMs: 5 } });
    const startedAt = performance.now();
    const failure = await failureOf(() =>
      fetcher.fetch(image(`${origin.base}/a`), optionsWith(), never()),
    );
    expect(failure).toMatchObject({ code: 'media_timeout', stepStatus: 424, retryable: true });
    expect(performance.now() - startedAt).toBeGreaterThan(190);
  });
});

/** What a picture of these bytes and this declared type ends with. */
async function fetchOf(
  body: Buffer,
  declared: string | undefined,
  contentCheck: ContentCheck = 'sniff',
  allowedImageTypes = optionsWith().allowedImageTypes,
): Promise<string> {
  await using origin = await startOrigin((_, response) => {
    if (declared !== undefined) response.setHeader('content-type', declared);
    response.end(body);
  });
  await using fetcher = loopbackFetcher();
  const options = optionsWith({ contentCheck, allowedImageTypes });
  try {
    const result = await fetcher.fetch(image(`${origin.base}/a`), options, never());
    expect(result.bytes.equals(body)).toBe(true);
    return result.contentType;
  } catch (error) {
    return (
      await failureOf(() => {
        throw error;
      })
    ).code;
  }
}

const refused: MediaErrorCode = 'media_type_not_allowed';
const tooMany: MediaErrorCode = 'media_dimensions_exceeded';
const avif = bytes('\0\0\0\x1cftypavif\0\0\0\0avifmif1');
/** A text chunk that inflates to 16 MB; nobody here inflates it. */
const textBomb = Buffer.concat([
  png.subarray(0, 33),
  chunk('zTXt', Buffer.concat([bytes('a\0\0'), deflateSync(Buffer.alloc(16 * mebibyte))])),
  png.subarray(33),
]);

/** A colour profile that inflates to as much. */
const profileBomb = Buffer.concat([
  png.subarray(0, 33),
  chunk('iCCP', Buffer.concat([bytes('a\0\0'), deflateSync(Buffer.alloc(16 * mebibyte))])),
  png.subarray(33),
]);

function chunk(type: string, data: Buffer): Buffer {
  const length = Buffer.alloc(4);
  length.writeUInt32BE(data.length);
  return Buffer.concat([length, bytes(type), data, Buffer.alloc(4)]);
}

describe('rows 95 to 106', () => {
  const rows: readonly (readonly [string, Buffer, string | undefined, string])[] = [
    ['95', jpeg(), 'text/plain', 'image/jpeg'],
    ['95', jpeg(), 'image/jpg', 'image/jpeg'],
    ['95', jpeg(), 'application/octet-stream', 'image/jpeg'],
    ['95', jpeg(), undefined, 'image/jpeg'],
    ['96', png, 'image/jpeg', 'image/png'],
    ['97', bytes('<html>sign in'), 'text/html', refused],
    ['97', bytes('<!doctype html>sign in'), 'image/png', refused],
    ['98', bytes('\xef\xbb\xbf<svg><image href="file:///etc/passwd"/>'), 'image/png', refused],
    ['98', bytes('<!-- x --><svg/>'), 'image/png', refused],
    ['99', bytes('%PDF-1.7'), 'image/png', refused],
    ['99', bytes('PK\x03\x04'), 'image/png', refused],
    ['99', bytes('\0\0\0\x18ftypisom'), 'image/png', refused],
    ['99', bytes('\0\0\x01\0\x01'), 'image/png', refused],
    ['99', bytes('\xff\x0a'), 'image/png', refused],
    ['99', bytes('II*\0'), 'image/png', refused],
    ['100', bytes('\0\0\0\x1cftypheic'), 'image/heic', refused],
    ['100', avif, 'image/avif', refused],
    ['101', png, 'image/png;base64,AAAA', 'image/png'],
    ['101', png, 'image/png, text/html', 'image/png'],
    ['102', bytes('jpeg-bytes'), 'image/png', 'image/png'],
    ['103', pngOf(60_000, 60_000), 'image/png', tooMany],
    ['103', pngOf(16_000, 16_000), 'image/png', tooMany],
    ['103', pngOf(5, 30_000), 'image/png', 'image/png'],
    ['104', textBomb, 'image/png', 'image/png'],
    ['104', profileBomb, 'image/png', 'image/png'],
    ['105', jpeg().subarray(0, 24), 'image/jpeg', 'image/jpeg'],
    ['106', Buffer.concat([jpeg(), bytes('PK\x03\x04')]), 'image/jpeg', 'image/jpeg'],
  ];
  it.each(rows.map(([row, body, declared, expected]) => ({ row, body, declared, expected })))(
    '$row: declared $declared, the bytes are $expected',
    async ({ body, declared, expected }) => {
      expect(await fetchOf(body, declared)).toBe(expected);
    },
  );

  it.each([
    { name: 'zTXt', bomb: textBomb },
    { name: 'iCCP', bomb: profileBomb },
  ])('104: $name bombs are never inflated', async ({ bomb }) => {
    await fetchOf(bomb, 'image/png');
    const before = process.memoryUsage().rss;
    for (let i = 0; i < 20; i += 1) await fetchOf(bomb, 'image/png');
    expect(process.memoryUsage().rss - before).toBeLessThan(30 * mebibyte);
  });

  it('100: AVIF is taken when it is listed', async () => {
    expect(await fetchOf(avif, 'image/avif', 'sniff', ['image/avif'])).toBe('image/avif');
  });

  it.each<[string, MediaErrorCode, Buffer]>([
    ['102', refused, bytes('jpeg-bytes')],
    ['103', tooMany, pngOf(5, 30_000)],
    ['105', 'media_content_invalid', jpeg().subarray(0, 24)],
  ])('%s: with strict it is %s', async (_, code, body) => {
    expect(await fetchOf(body, 'image/jpeg', 'strict')).toBe(code);
  });
});

describe('row 125', () => {
  it('64 MB of one letter are judged at once', async () => {
    const uri = Buffer.alloc(64 * mebibyte, 'A');
    uri.write('data:image/png;base64,');
    await using fetcher = loopbackFetcher();
    const startedAt = performance.now();
    const failure = await failureOf(() => fetcher.parseDataUri(uri, optionsWith()));
    expect(performance.now() - startedAt).toBeLessThan(100);
    expect(failure.code).toMatch(/^media_(too_large|data_uri_invalid)$/);
  });
});

describe('row 128', () => {
  it('20 items of 1 MB do not fit a total of 16 MB, and the others are let go', async () => {
    const body = Buffer.concat([png, Buffer.alloc(mebibyte - png.length)]);
    await using origin = await startOrigin((_, response) => response.end(body));
    await using fetcher = loopbackFetcher();
    const refs = Array.from({ length: 20 }, (_, i) => image(`${origin.base}/${i}`));
    const options = optionsWith({ maxTotalDownloadBytes: 16 * mebibyte });
    const failure = await failureOf(() => fetcher.fetchMany(refs, options, never()));
    expect(failure).toMatchObject({ code: 'media_total_too_large', limit: 16 * mebibyte });
    expect(fetcher.stats()).toEqual({ activeDownloads: 0, queuedDownloads: 0, bufferedBytes: 0 });
  });
});
