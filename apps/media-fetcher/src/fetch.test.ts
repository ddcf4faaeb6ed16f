import { createHash } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import supertest from 'supertest';
import { digest, etag, fetchPath, png, Rig } from './testing.ts';

let rig: Rig;
beforeAll(async () => {
  rig = await Rig.open();
});
afterAll(() => rig.close());

describe('POST /v1/media/fetch (media-fetcher.md 1.4)', () => {
  it('answers JSON with every member', async () => {
    const answer = await rig.post(fetchPath, {
      url: rig.url('/a.png?sig=SECRET'),
      modality: 'image',
    });
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
    const { json } = await rig.post(fetchPath, { url: rig.url(), options: { return: returned } });
    expect(json()['data']).toBe(data);
  });

  it.each(['application/octet-stream', 'image/png', 'image/*;q=0.9, */*;q=0.1'])(
    'answers the bytes themselves to accept: %s',
    async (accept) => {
      const { status, headers, bytes } = await rig.post(fetchPath, { url: rig.url() }, { accept });
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

  it('leaves out what an origin writes at length, so that all of it fits a header', async () => {
    const { headers } = await rig.post(
      fetchPath,
      { url: rig.url('/wordy') },
      { accept: 'image/png' },
    );
    const { 'x-media-meta': meta = '' } = headers;
    expect(meta.length).toBeLessThan(4096);
    expect(JSON.parse(Buffer.from(meta, 'base64url').toString())).toMatchObject({
      ...{ declared_content_type: null, source: { etag: null, last_modified: null } },
    });
  });

  it('answers 304 without a body when the caller has these bytes', async () => {
    const body = { url: rig.url(), if_none_match: etag };
    const { status, headers, bytes } = await rig.post(fetchPath, body);
    expect({ status, etag: headers['etag'], length: bytes.length }).toEqual({
      ...{ status: 304, etag, length: 0 },
    });
    const other = await rig.post(fetchPath, { url: rig.url(), if_none_match: '"sha256:00"' });
    expect(other.status).toBe(200);
  });

  it('takes inline media, with the same checks', async () => {
    const uri = `data:image/png;base64,${png.toString('base64')}`;
    const { json } = await rig.post(fetchPath, { url: uri });
    expect(json()).toMatchObject({
      ...{ content_type: 'image/png', sha256: digest, width: 1, height: 1 },
    });
    const broken = await rig.post(fetchPath, { url: 'data:text/html;base64,AAAA' });
    expect(broken.json()).toMatchObject({ code: 'media_type_not_allowed', status: 415 });
  });

  it('tells redirects in source, and nothing of the URL but its host', async () => {
    const url = `${rig.origin.base}/to/${encodeURIComponent('/b.png?token=SECRET')}`;
    const { bytes, json } = await rig.post(fetchPath, { url });
    expect(json()).toMatchObject({ source: { host: '127.0.0.1', redirects: 1 } });
    expect(bytes.toString()).not.toContain('SECRET');
  });

  it('answers from the cache, and says so', async () => {
    const url = `${rig.origin.base}/cached.png`;
    const first = await rig.post(fetchPath, { url }, {}, rig.cached);
    expect(first.json()).toMatchObject({ cache: { status: 'miss' } });
    const second = await rig.post(fetchPath, { url }, {}, rig.cached);
    expect(second.json()).toMatchObject({ cache: { status: 'hit', tier: 'memory' } });
    await rig.post(fetchPath, { url, options: { cache: 'reload' } }, {}, rig.cached);
    const { 'x-media-meta': meta = '' } = (
      await rig.post(fetchPath, { url }, { accept: 'image/png' }, rig.cached)
    ).headers;
    expect(JSON.parse(Buffer.from(meta, 'base64url').toString())).toMatchObject({
      cache: { status: 'hit' },
    });
    expect(rig.origin.asked.filter((path) => path === '/cached.png')).toHaveLength(2);
  });

  it('answers 504 media_not_cached to only-if-rig.cached without a copy', async () => {
    const body = { url: rig.url('/never.png'), options: { cache: 'only-if-cached' } };
    const { status, json } = await rig.post(fetchPath, body, {}, rig.cached);
    expect({ status, code: json()['code'] }).toEqual({ status: 504, code: 'media_not_cached' });
  });

  it('says of a remembered failure what it was', async () => {
    const body = { url: rig.url('/status/404?remembered') };
    const [first, second] = [
      await rig.post(fetchPath, body, {}, rig.cached),
      await rig.post(fetchPath, body, {}, rig.cached),
    ];
    expect(second.json()).toEqual({ ...first.json(), request_id: second.headers['x-request-id'] });
    expect(rig.origin.asked.filter((path) => path.includes('remembered'))).toHaveLength(1);
  });
});

describe('GET /v1/media/blobs/{sha256} (1.3)', () => {
  beforeAll(() => rig.post(fetchPath, { url: rig.url('/blob.png') }, {}, rig.cached));

  it('answers the bytes that are cached', async () => {
    const { status, headers, bytes } = await rig.get(`/v1/media/blobs/${digest}`, {}, rig.cached);
    expect(status).toBe(200);
    expect(bytes).toEqual(png);
    expect(headers).toMatchObject({
      ...{ 'content-type': 'image/png', etag, 'content-disposition': 'attachment' },
      ...{ 'x-content-type-options': 'nosniff', 'cross-origin-resource-policy': 'same-origin' },
    });
  });

  it('answers HEAD without the bytes', async () => {
    const { status, headers } = await supertest(rig.cached.url).head(`/v1/media/blobs/${digest}`);
    expect(status).toBe(200);
    expect(headers).toMatchObject({ 'content-length': String(png.length), etag });
  });

  it.each([etag, `W/${etag}, "other"`, '*'])('answers 304 to If-None-Match: %s', async (tag) => {
    const { status, bytes } = await rig.get(
      `/v1/media/blobs/${digest}`,
      { 'if-none-match': tag },
      rig.cached,
    );
    expect({ status, length: bytes.length }).toEqual({ status: 304, length: 0 });
  });

  it.each(['0'.repeat(64), 'nonsense'])('answers 404 media_not_cached to %s', async (name) => {
    for (const to of [rig.cached, rig.fetcher]) {
      const { status, headers, json } = await rig.get(`/v1/media/blobs/${name}`, {}, to);
      expect(status).toBe(404);
      expect(headers['content-type']).toMatch(/^application\/problem\+json/);
      expect(json()).toMatchObject({ code: 'media_not_cached', status: 404 });
    }
  });
});

describe('probes and metrics (1.3)', () => {
  it('GET /healthz is 200', async () => {
    expect((await rig.get('/healthz')).status).toBe(200);
  });

  it('GET /readyz tells the state of the cache', async () => {
    expect((await rig.get('/readyz')).json()).toEqual({ status: 'ok', cache: 'disabled' });
    expect((await rig.get('/readyz', {}, rig.cached)).json()).toEqual({
      status: 'ok',
      cache: 'ok',
    });
  });

  it('GET /metrics counts items without hosts', async () => {
    const { bytes, headers } = await rig.get('/metrics', {}, rig.cached);
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

it('logs a line per item, without directories and query', () => {
  const lines = rig.fetcher.lines.filter(({ msg }) => msg === 'fetched' || msg === 'not fetched');
  expect(lines).toContainEqual(
    expect.objectContaining({
      ...{ msg: 'fetched', host: '127.0.0.1', bytes: png.length, content_type: 'image/png' },
      ...{ index: 0, modality: 'image', request_id: expect.any(String), ms: expect.any(Number) },
      ...{ name: 'a.png', status: 200, hops: 0 },
    }),
  );
  expect(JSON.stringify(rig.fetcher.lines)).not.toContain('SECRET');
});
