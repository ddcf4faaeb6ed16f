import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import supertest from 'supertest';
import { type Origin, png, startFetcher, startOrigin, type TestFetcher } from './testing.ts';

const digest = createHash('sha256').update(png).digest('hex');
const etag = `"sha256:${digest}"`;
const photo = readFileSync(
  join(import.meta.dirname, '../../../tools/local-stack/photo/harbour.jpg'),
);
let origin: Origin;
let fetcher: TestFetcher;
let cached: TestFetcher;

beforeAll(async () => {
  origin = await startOrigin(({ url = '' }, response) => {
    const status = /^\/status\/(\d+)/.exec(url)?.[1];
    if (status) response.writeHead(Number(status)).end('SECRET of the origin');
    else if (url.startsWith('/html')) response.end('<!doctype html><p>log in</p>');
    else if (url.startsWith('/photo')) response.end(photo);
    else if (url.startsWith('/empty')) response.end();
    else if (url.startsWith('/big')) response.end(Buffer.alloc(2 * 1024 * 1024));
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
  });
  fetcher = await startFetcher({
    MEDIA_MAX_DOWNLOAD_SIZE_IMAGE: '1',
    MEDIA_MAX_TOTAL_DOWNLOAD_SIZE: '2',
    MEDIA_MAX_RETRIES: '0',
  });
  cached = await startFetcher({ MEDIA_CACHE_ENABLED: 'true' });
});

afterAll(async () => {
  await Promise.all([fetcher.close(), cached.close()]);
  await origin.close();
});

interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly bytes: Buffer;
  readonly json: () => Record<string, unknown>;
}

async function post(
  path: string,
  body: unknown,
  headers: Record<string, string> = {},
  to = fetcher,
): Promise<Answer> {
  const answer: unknown = await supertest(to.url)
    .post(path)
    .set({ 'content-type': 'application/json', ...headers })
    .responseType('blob')
    .send(typeof body === 'string' ? body : JSON.stringify(body));
  return answerOf(answer as Response);
}

async function get(path: string, headers: Record<string, string> = {}, to = fetcher) {
  const answer: unknown = await supertest(to.url).get(path).set(headers).responseType('blob');
  return answerOf(answer as Response);
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

const fetchPath = '/v1/media/fetch';
const batchPath = '/v1/media/batch';
const pngUrl = (path = '/a.png'): string => `${origin.base}${path}`;

/** The frames of an answer: their headers and what follows each of them. */
function framesOf(bytes: Buffer): { header: Record<string, unknown>; bytes: Buffer }[] {
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

describe('POST /v1/media/fetch (media-fetcher.md 1.4)', () => {
  it('answers JSON with every member', async () => {
    const answer = await post(fetchPath, { url: pngUrl('/a.png?sig=SECRET'), modality: 'image' });
    expect(answer.status).toBe(200);
    expect(answer.headers['content-type']).toBe('application/json');
    expect(answer.json()).toEqual({
      content_type: 'image/png',
      byte_length: png.length,
      sha256: digest,
      etag,
      width: 1,
      height: 1,
      orientation: 1,
      frames: 1,
      declared_content_type: 'image/jpeg',
      transformed: false,
      source: {
        sha256: digest,
        byte_length: png.length,
        etag: '"abc"',
        last_modified: 'Mon, 01 Jan 2024 00:00:00 GMT',
        host: '127.0.0.1',
        redirects: 0,
      },
      cache: { status: 'bypass', tier: 'none', age_ms: 0, ttl_ms: 0 },
      timing_ms: {
        queue: expect.any(Number),
        first_byte: expect.any(Number),
        download: expect.any(Number),
        transform: 0,
        total: expect.any(Number),
      },
      data: png.toString('base64'),
    });
  });

  it.each([
    { returned: 'base64', data: png.toString('base64') },
    { returned: 'data_uri', data: `data:image/png;base64,${png.toString('base64')}` },
    { returned: 'none', data: undefined },
  ])('returns the payload as $returned', async ({ returned, data }) => {
    const { json } = await post(fetchPath, { url: pngUrl(), options: { return: returned } });
    expect(json()['data']).toBe(data);
  });

  it.each(['application/octet-stream', 'image/png', 'image/*;q=0.9, */*;q=0.1'])(
    'answers the bytes themselves to accept: %s',
    async (accept) => {
      const { status, headers, bytes } = await post(fetchPath, { url: pngUrl() }, { accept });
      expect(status).toBe(200);
      expect(bytes).toEqual(png);
      expect(headers).toMatchObject({
        'content-type': 'image/png',
        'content-length': String(png.length),
        etag,
        'repr-digest': `sha-256=:${createHash('sha256').update(png).digest('base64')}:`,
        'x-content-type-options': 'nosniff',
        'content-disposition': 'attachment',
        'content-security-policy': "default-src 'none'; sandbox",
        'cross-origin-resource-policy': 'same-origin',
      });
      const { 'x-media-meta': meta = '' } = headers;
      expect(meta.length).toBeLessThan(4096);
      const told: unknown = JSON.parse(Buffer.from(meta, 'base64url').toString());
      expect(told).toMatchObject({ content_type: 'image/png', sha256: digest, width: 1 });
      expect(told).not.toHaveProperty('data');
    },
  );

  it('answers 304 without a body when the caller has these bytes', async () => {
    const body = { url: pngUrl(), if_none_match: etag };
    const { status, headers, bytes } = await post(fetchPath, body);
    expect({ status, etag: headers['etag'], length: bytes.length }).toEqual({
      ...{ status: 304, etag, length: 0 },
    });
    const other = await post(fetchPath, { url: pngUrl(), if_none_match: '"sha256:00"' });
    expect(other.status).toBe(200);
  });

  it('takes inline media, with the same checks', async () => {
    const uri = `data:image/png;base64,${png.toString('base64')}`;
    const { json } = await post(fetchPath, { url: uri });
    expect(json()).toMatchObject({ content_type: 'image/png', sha256: digest });
    const broken = await post(fetchPath, { url: 'data:text/html;base64,AAAA' });
    expect(broken.json()).toMatchObject({ code: 'media_type_not_allowed', status: 415 });
  });

  it('tells redirects in source, and nothing of the URL but its host', async () => {
    const url = `${origin.base}/to/${encodeURIComponent('/b.png?token=SECRET')}`;
    const { bytes, json } = await post(fetchPath, { url });
    expect(json()).toMatchObject({ source: { host: '127.0.0.1', redirects: 1 } });
    expect(bytes.toString()).not.toContain('SECRET');
  });

  it('answers from the cache, and says so', async () => {
    const url = `${origin.base}/cached.png`;
    const first = await post(fetchPath, { url }, {}, cached);
    expect(first.json()).toMatchObject({ cache: { status: 'miss' } });
    const second = await post(fetchPath, { url }, {}, cached);
    expect(second.json()).toMatchObject({ cache: { status: 'hit', tier: 'memory' } });
    await post(fetchPath, { url, options: { cache: 'reload' } }, {}, cached);
    const { 'x-media-meta': meta = '' } = (
      await post(fetchPath, { url }, { accept: 'image/png' }, cached)
    ).headers;
    expect(JSON.parse(Buffer.from(meta, 'base64url').toString())).toMatchObject({
      cache: { status: 'hit' },
    });
    expect(origin.asked.filter((path) => path === '/cached.png')).toHaveLength(2);
  });

  it('answers 504 media_not_cached to only-if-cached without a copy', async () => {
    const body = { url: pngUrl('/never.png'), options: { cache: 'only-if-cached' } };
    const { status, json } = await post(fetchPath, body, {}, cached);
    expect({ status, code: json()['code'] }).toEqual({ status: 504, code: 'media_not_cached' });
  });

  it('says of a remembered failure what it was', async () => {
    const body = { url: pngUrl('/status/404?remembered') };
    const [first, second] = [
      await post(fetchPath, body, {}, cached),
      await post(fetchPath, body, {}, cached),
    ];
    expect(second.json()).toEqual({ ...first.json(), request_id: second.headers['x-request-id'] });
    expect(origin.asked.filter((path) => path.includes('remembered'))).toHaveLength(1);
  });
});

describe('GET /v1/media/blobs/{sha256} (1.3)', () => {
  beforeAll(() => post(fetchPath, { url: pngUrl('/blob.png') }, {}, cached));

  it('answers the bytes that are cached', async () => {
    const { status, headers, bytes } = await get(`/v1/media/blobs/${digest}`, {}, cached);
    expect(status).toBe(200);
    expect(bytes).toEqual(png);
    expect(headers).toMatchObject({
      ...{ 'content-type': 'image/png', etag, 'content-disposition': 'attachment' },
      ...{ 'x-content-type-options': 'nosniff', 'cross-origin-resource-policy': 'same-origin' },
    });
  });

  it('answers HEAD without the bytes', async () => {
    const { status, headers } = await supertest(cached.url).head(`/v1/media/blobs/${digest}`);
    expect(status).toBe(200);
    expect(headers).toMatchObject({ 'content-length': String(png.length), etag });
  });

  it.each([etag, `W/${etag}, "other"`, '*'])('answers 304 to If-None-Match: %s', async (tag) => {
    const { status, bytes } = await get(
      `/v1/media/blobs/${digest}`,
      { 'if-none-match': tag },
      cached,
    );
    expect({ status, length: bytes.length }).toEqual({ status: 304, length: 0 });
  });

  it.each(['0'.repeat(64), 'nonsense'])('answers 404 media_not_cached to %s', async (name) => {
    for (const to of [cached, fetcher]) {
      const { status, headers, json } = await get(`/v1/media/blobs/${name}`, {}, to);
      expect(status).toBe(404);
      expect(headers['content-type']).toMatch(/^application\/problem\+json/);
      expect(json()).toMatchObject({ code: 'media_not_cached', status: 404 });
    }
  });
});

describe('POST /v1/media/batch (1.5)', () => {
  const two = () => ({
    items: [
      { id: 'x', url: pngUrl('/1.png') },
      { url: pngUrl('/2.png'), modality: 'image' },
    ],
  });
  const oneBad = () => ({
    items: [
      { id: 'good', url: pngUrl('/1.png') },
      { id: 'bad', url: pngUrl('/status/404') },
    ],
  });

  it('answers JSON in the order of the request, with ids', async () => {
    const { status, json } = await post(batchPath, two());
    expect(status).toBe(200);
    expect(json()).toEqual({
      results: ['x', '1'].map((id) =>
        expect.objectContaining({ id, ok: true, sha256: digest, data: png.toString('base64') }),
      ),
    });
  });

  it('answers lines to accept: application/x-ndjson', async () => {
    const { headers, bytes } = await post(batchPath, two(), { accept: 'application/x-ndjson' });
    expect(headers['content-type']).toBe('application/x-ndjson');
    const lines = bytes.toString().trimEnd().split('\n');
    expect(lines.map((line) => (JSON.parse(line) as { id: string }).id)).toEqual(['x', '1']);
  });

  it('answers frames to accept: application/x-media-frames', async () => {
    const { headers, bytes } = await post(batchPath, two(), {
      accept: 'application/x-media-frames',
    });
    expect(headers['content-type']).toBe('application/x-media-frames');
    const frames = framesOf(bytes);
    expect(frames.map(({ header }) => header)).toEqual(
      ['x', '1'].map((id) =>
        expect.objectContaining({ id, ok: true, content_type: 'image/png', byte_length: 69 }),
      ),
    );
    expect(frames.map((frame) => frame.bytes)).toEqual([png, png]);
    expect(frames[0]?.header).not.toHaveProperty('data');
  });

  it.each(['application/json', 'application/x-ndjson', 'application/x-media-frames'])(
    'answers the first failure alone as %s, with index and id',
    async (accept) => {
      const { status, headers, json } = await post(batchPath, oneBad(), { accept });
      expect(status).toBe(502);
      expect(headers['content-type']).toMatch(/^application\/problem\+json/);
      expect(json()).toMatchObject({
        ...{ code: 'media_origin_status', index: 1, id: 'bad', origin_status: 404 },
      });
    },
  );

  it('goes on past failures without fail_fast, in every form', async () => {
    const body = { ...oneBad(), fail_fast: false };
    const problem = expect.objectContaining({
      ...{ code: 'media_origin_status', status: 502, index: 1, id: 'bad' },
    }) as object;
    const json = await post(batchPath, body);
    expect(json.status).toBe(200);
    expect(json.json()).toEqual({
      results: [
        expect.objectContaining({ id: 'good', ok: true }),
        { id: 'bad', ok: false, error: problem },
      ],
    });
    const lines = await post(batchPath, body, { accept: 'application/x-ndjson' });
    const parsed = lines.bytes.toString().trimEnd().split('\n');
    expect(parsed.map((line) => (JSON.parse(line) as { ok: boolean }).ok).toSorted()).toEqual([
      ...[false, true],
    ]);
    const frames = framesOf(
      (await post(batchPath, body, { accept: 'application/x-media-frames' })).bytes,
    );
    expect(frames.map(({ header, bytes }) => [header['ok'], bytes.length])).toEqual([
      [true, png.length],
      [false, 0],
    ]);
    expect(frames[1]?.header).toEqual({ id: 'bad', ok: false, byte_length: 0, error: problem });
  });

  it('writes a line as soon as its item is there', async () => {
    const items = [{ url: pngUrl('/mute') }, { url: pngUrl('/fast.png') }];
    const body = { items, fail_fast: false, options: { timeout_ms: 300 } };
    const { bytes } = await post(batchPath, body, { accept: 'application/x-ndjson' });
    const lines = bytes.toString().trimEnd().split('\n');
    expect(lines.map((line) => (JSON.parse(line) as { id: string }).id)).toEqual(['1', '0']);
  });

  it('fetches equal references once', async () => {
    const url = pngUrl('/equal.png');
    for (const failFast of [true, false]) {
      await post(batchPath, { items: [{ url }, { url }, { url }], fail_fast: failFast });
    }
    expect(origin.asked.filter((path) => path === '/equal.png')).toHaveLength(2);
  });

  it.each([true, false])('keeps to the total, fail_fast: %s', async (failFast) => {
    const items = [{ url: pngUrl('/1.png') }, { url: pngUrl('/2.png') }];
    const options = { max_total_bytes: png.length + 1 };
    const { json } = await post(batchPath, { items, options, fail_fast: failFast });
    const text = JSON.stringify(json());
    expect(text).toContain('media_total_too_large');
    expect(text.includes('"ok":true')).toBe(!failFast);
  });
});

describe('problem documents (1.6)', () => {
  const inTwo = (url: string, options?: object) => ({
    items: [{ url: pngUrl() }, { id: 'it', url }],
    options,
  });

  it('have every member', async () => {
    const { headers, status, json } = await post(batchPath, inTwo(pngUrl('/big')), {
      'x-request-id': 'mine-1',
    });
    expect(status).toBe(413);
    expect(headers['content-type']).toMatch(/^application\/problem\+json/);
    expect(headers['x-request-id']).toBe('mine-1');
    expect(json()).toEqual({
      type: 'urn:media:problem:media_too_large',
      title: 'Media is too large',
      status: 413,
      code: 'media_too_large',
      detail: expect.stringContaining('1048576'),
      retryable: false,
      limit: 1_048_576,
      actual: expect.any(Number),
      index: 1,
      id: 'it',
      origin_status: null,
      request_id: 'mine-1',
    });
  });

  it.each([
    { code: 'media_url_invalid', status: 400, url: () => 'http://a..b/' },
    { code: 'media_url_too_long', status: 400, url: () => `http://a.org/${'x'.repeat(9000)}` },
    { code: 'media_scheme_not_allowed', status: 400, url: () => 'file:///etc/passwd' },
    { code: 'media_credentials_not_allowed', status: 400, url: () => 'http://u:SECRET@a.org/' },
    { code: 'media_port_not_allowed', status: 400, url: () => 'http://a.org:6379/' },
    { code: 'media_host_not_allowed', status: 403, url: () => 'http://localhost/' },
    { code: 'media_address_blocked', status: 403, url: () => 'http://169.254.169.254/SECRET' },
    { code: 'media_redirect_blocked', status: 403, url: () => pngUrl('/to/http%3A%2F%2F10.0.0.1') },
    { code: 'media_too_many_redirects', status: 400, url: () => pngUrl('/loop') },
    { code: 'media_redirect_invalid', status: 502, url: () => pngUrl('/nowhere') },
    { code: 'media_data_uri_invalid', status: 400, url: () => 'data:image/png,SECRET' },
    { code: 'media_type_not_allowed', status: 415, url: () => pngUrl('/html') },
    { code: 'media_content_invalid', status: 415, url: () => pngUrl('/empty') },
    { code: 'media_too_large', status: 413, url: () => pngUrl('/big?SECRET') },
    { code: 'media_dimensions_exceeded', status: 413, url: () => pngUrl('/huge') },
    { code: 'media_origin_status', status: 502, url: () => pngUrl('/status/403?SECRET') },
    { code: 'media_origin_status', status: 502, url: () => pngUrl('/status/500?SECRET') },
    { code: 'media_dns_failed', status: 502, url: () => 'http://no-such-name.invalid/' },
    { code: 'media_connect_failed', status: 502, url: () => 'http://127.0.0.1:2/' },
    { code: 'media_tls_failed', status: 502, url: () => pngUrl().replace('http:', 'https:') },
    { code: 'media_protocol_error', status: 502, url: () => pngUrl('/zstd') },
    { code: 'media_truncated', status: 502, url: () => pngUrl('/cut') },
    { code: 'media_timeout', status: 504, url: () => pngUrl('/mute?SECRET') },
  ])('$code is $status, for one and in a batch', async ({ code, status, url }) => {
    const options = { timeout_ms: 400 };
    const one = await post(fetchPath, { url: url(), options });
    expect(one.json()).toMatchObject({ code, status, type: `urn:media:problem:${code}` });
    expect(one.status).toBe(status);
    expect(one.bytes.toString()).not.toMatch(/SECRET|127\.0\.0\.1|169\.254/);
    expect(one.json()).not.toHaveProperty('index');
    const { 'x-content-type-options': nosniff } = one.headers;
    expect(nosniff).toBe('nosniff');
    const batch = await post(batchPath, inTwo(url(), options));
    expect(batch.status).toBe(status);
    expect(batch.json()).toMatchObject({ code, index: 1, id: 'it' });
  });

  it.each([
    { status: 404, retryable: false },
    { status: 429, retryable: true },
    { status: 503, retryable: true },
  ])('an origin that answers $status is retryable: $retryable', async ({ status, retryable }) => {
    const { json } = await post(fetchPath, { url: pngUrl(`/status/${status}`) });
    expect(json()).toMatchObject({ origin_status: status, retryable });
  });

  it('name the rule that a redirect broke, and how far it got', async () => {
    const url = pngUrl(`/to/${encodeURIComponent('http://10.0.0.1/')}`);
    const { json } = await post(fetchPath, { url });
    expect(json()).toMatchObject({ cause_code: 'media_address_blocked', hop: 1 });
  });
});

describe('requests that are none', () => {
  it.each([
    { name: 'no JSON', body: '{"url":', detail: 'the body is not JSON' },
    { name: 'no UTF-8', body: '\ud800', detail: /not JSON/ },
    { name: 'nothing', body: '', detail: 'the body is not JSON' },
    { name: 'a list', body: '[]', detail: /^the body: / },
    { name: 'no url', body: {}, detail: /^url: / },
    { name: 'a url that is no text', body: { url: 1 }, detail: /^url: / },
    { name: 'an unknown member', body: { url: 'x', urll: 1 }, detail: /unknown members "urll"/ },
    { name: 'a modality', body: { url: 'x', modality: 'text' }, detail: /^modality: / },
    {
      name: 'an unknown option',
      body: { url: 'x', options: { proxy: 'http://SECRET' } },
      detail: /^options: unknown members "proxy"/,
    },
    { name: 'a time', body: { url: 'x', options: { timeout_ms: 0 } }, detail: /timeout_ms/ },
    { name: 'a size', body: { url: 'x', options: { max_bytes: '1' } }, detail: /max_bytes/ },
    { name: 'a return', body: { url: 'x', options: { return: 'raw' } }, detail: /return/ },
    { name: 'a cache', body: { url: 'x', options: { cache: 'yes' } }, detail: /cache/ },
    {
      name: 'hosts',
      body: { url: 'x', options: { allowed_domains: ['*'] } },
      detail: /allowed_domains/,
    },
  ])('$name of a fetch is 400 with a problem', async ({ body, detail }) => {
    const { status, headers, json, bytes } = await post(fetchPath, body);
    expect(status).toBe(400);
    expect(headers['content-type']).toBe('application/problem+json');
    expect(json()).toEqual({
      type: 'urn:media:problem:request_invalid',
      title: 'Bad Request',
      status: 400,
      code: 'request_invalid',
      detail: typeof detail === 'string' ? detail : expect.stringMatching(detail),
      retryable: false,
      origin_status: null,
      request_id: headers['x-request-id'],
    });
    expect(bytes.toString()).not.toContain('SECRET');
  });

  it.each([
    { name: 'no items', body: { items: [] } },
    { name: '65 items', body: { items: Array.from({ length: 65 }, () => ({ url: 'x' })) } },
    { name: 'an item without a url', body: { items: [{ id: 'a' }] } },
    { name: 'a number as id', body: { items: [{ id: 1, url: 'x' }] } },
    { name: 'fail_fast as a text', body: { items: [{ url: 'x' }], fail_fast: 'no' } },
  ])('$name of a batch is 400', async ({ body }) => {
    const { status, json } = await post(batchPath, body);
    expect({ status, code: json()['code'] }).toEqual({ status: 400, code: 'request_invalid' });
  });

  it.each([
    { path: '/v1/media/else', status: 404, code: 'unknown_path' },
    { path: '/v1/media/fetch?url=http://example.com', status: 405, code: 'method_not_allowed' },
  ])('GET $path is $status', async ({ path, status, code }) => {
    const answer = await get(path);
    expect(answer.status).toBe(status);
    expect(answer.headers['x-content-type-options']).toBe('nosniff');
    expect(answer.json()).toMatchObject({ code, status });
  });

  it('a body of more than 1 MB beside its inline media is 413', async () => {
    const body = { url: `http://a.org/${'x'.repeat(1024 * 1024)}` };
    expect((await post(fetchPath, body)).json()).toMatchObject({
      ...{ status: 413, code: 'request_too_large' },
    });
  });

  it('inline media over the limit of an item is 413, whatever is announced', async () => {
    const payload = Buffer.concat([png, Buffer.alloc(1024 * 1024)]).toString('base64');
    const { status, json } = await post(fetchPath, { url: `data:image/png;base64,${payload}` });
    expect({ status, code: json()['code'] }).toEqual({ status: 413, code: 'media_too_large' });
  });

  it('a body over every limit is 413 before it is read', async () => {
    const { status, json } = await post(fetchPath, ' '.repeat(5 * 1024 * 1024));
    expect({ status, code: json()['code'] }).toEqual({ status: 413, code: 'request_too_large' });
  });
});

describe('options (1.4)', () => {
  it('never loosen what the configuration says', async () => {
    const options = { max_bytes: 1e9, max_total_bytes: 1e9, timeout_ms: 1e6, max_redirects: 99 };
    const big = await post(fetchPath, { url: pngUrl('/big'), options });
    expect(big.json()).toMatchObject({ code: 'media_too_large', limit: 1_048_576 });
    const opened = { content_check: 'off', allow_private_networks: true };
    const html = await post(fetchPath, { url: pngUrl('/html'), options: opened });
    expect(html.json()).toMatchObject({ code: 'media_type_not_allowed' });
    const inner = await post(fetchPath, { url: 'http://10.0.0.1/', options: opened });
    expect(inner.json()).toMatchObject({ code: 'media_address_blocked' });
    const named = { allowed_domains: ['localhost'] };
    const local = await post(fetchPath, { url: 'http://localhost/', options: named });
    expect(local.json()).toMatchObject({ code: 'media_host_not_allowed' });
  });

  it.each([
    { options: { max_bytes: 10 }, code: 'media_too_large' },
    { options: { max_bytes: { image: 10 } }, code: 'media_too_large' },
    { options: { max_total_bytes: 10 }, code: 'media_total_too_large' },
    { options: { allowed_domains: ['example.com'] }, code: 'media_host_not_allowed' },
    { options: { allowed_types: { image: ['image/gif'] } }, code: 'media_type_not_allowed' },
    { options: { allowed_types: { image: ['image/tiff'] } }, code: 'media_type_not_allowed' },
  ])('$options tightens: $code', async ({ options, code }) => {
    const { json } = await post(fetchPath, { url: pngUrl(), options });
    expect(json()['code']).toBe(code);
  });

  it('transform: fit shrinks an image, and source tells what it was', async () => {
    const fit = { mode: 'fit', factor: 28, min_pixels: 3136, max_pixels: 100_000 };
    const { json } = await post(fetchPath, { url: pngUrl('/photo'), options: { transform: fit } });
    const { width, height, byte_length: byteLength } = json() as Record<string, number>;
    expect((width ?? 0) * (height ?? 0)).toBeLessThanOrEqual(100_000);
    expect([(width ?? 1) % 28, (height ?? 1) % 28]).toEqual([0, 0]);
    expect(byteLength).toBeLessThan(photo.length);
    const sha256 = createHash('sha256').update(photo).digest('hex');
    expect(json()).toMatchObject({
      transformed: true,
      source: { byte_length: photo.length, sha256 },
    });
    const off = await post(fetchPath, {
      ...{ url: pngUrl('/photo'), options: { transform: { mode: 'off' } } },
    });
    expect(off.json()).toMatchObject({ transformed: false, sha256, width: 640, height: 480 });
  });

  it('inline_bytes count towards the total', async () => {
    const options = { inline_bytes: 2 * 1024 * 1024 };
    const { json } = await post(fetchPath, { url: pngUrl(), options });
    expect(json()['code']).toBe('media_total_too_large');
  });

  it('max_redirects: 0 takes no redirect', async () => {
    const url = pngUrl('/to/%2Fb.png');
    expect((await post(fetchPath, { url })).status).toBe(200);
    const { json } = await post(fetchPath, { url, options: { max_redirects: 0 } });
    expect(json()['code']).toBe('media_too_many_redirects');
  });
});

describe('probes and metrics (1.3)', () => {
  it('GET /healthz is 200', async () => {
    expect((await get('/healthz')).status).toBe(200);
  });

  it('GET /readyz tells the state of the cache', async () => {
    expect((await get('/readyz')).json()).toEqual({ status: 'ok', cache: 'disabled' });
    expect((await get('/readyz', {}, cached)).json()).toEqual({ status: 'ok', cache: 'ok' });
  });

  it('GET /metrics counts items without hosts', async () => {
    const { bytes, headers } = await get('/metrics', {}, cached);
    const text = bytes.toString();
    expect(headers['content-type']).toContain('text/plain');
    expect(text).toMatch(/media_fetch_total\{modality="image",code="ok"\} \d/);
    expect(text).toContain('media_fetch_total{modality="image",code="media_origin_status"} ');
    expect(text).toMatch(/media_cache_total\{tier="memory",status="hit"\} \d/);
    expect(text).toContain(
      'media_content_mismatch_total{declared="image/jpeg",sniffed="image/png"}',
    );
    expect(text).not.toContain('127.0.0.1');
  });
});

it('logs a line per item, without path and query', () => {
  const lines = fetcher.lines.filter(({ msg }) => msg === 'fetched' || msg === 'not fetched');
  expect(lines).toContainEqual(
    expect.objectContaining({
      ...{ msg: 'fetched', host: '127.0.0.1', bytes: png.length, content_type: 'image/png' },
      ...{ index: 0, modality: 'image', request_id: expect.any(String), ms: expect.any(Number) },
    }),
  );
  expect(JSON.stringify(fetcher.lines)).not.toContain('SECRET');
});
