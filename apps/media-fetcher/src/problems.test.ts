import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { batchPath, fetchPath, png, Rig } from './testing.ts';

let rig: Rig;
beforeAll(async () => {
  rig = await Rig.open();
});
afterAll(() => rig.close());

describe('problem documents (1.6)', () => {
  const inTwo = (url: string, options?: object) => ({
    items: [{ url: rig.url() }, { id: 'it', url }],
    options,
  });

  it('have every member', async () => {
    const { headers, status, json } = await rig.post(batchPath, inTwo(rig.url('/big')), {
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
    {
      code: 'media_redirect_blocked',
      status: 403,
      url: () => rig.url('/to/http%3A%2F%2F10.0.0.1'),
    },
    { code: 'media_too_many_redirects', status: 400, url: () => rig.url('/loop') },
    { code: 'media_redirect_invalid', status: 502, url: () => rig.url('/nowhere') },
    { code: 'media_data_uri_invalid', status: 400, url: () => 'data:image/png,SECRET' },
    { code: 'media_type_not_allowed', status: 415, url: () => rig.url('/html') },
    { code: 'media_content_invalid', status: 415, url: () => rig.url('/empty') },
    { code: 'media_too_large', status: 413, url: () => rig.url('/big?SECRET') },
    { code: 'media_dimensions_exceeded', status: 413, url: () => rig.url('/huge') },
    { code: 'media_origin_status', status: 502, url: () => rig.url('/status/403?SECRET') },
    { code: 'media_origin_status', status: 502, url: () => rig.url('/status/500?SECRET') },
    { code: 'media_dns_failed', status: 502, url: () => 'http://no-such-name.invalid/' },
    { code: 'media_connect_failed', status: 502, url: () => 'http://127.0.0.1:2/' },
    { code: 'media_tls_failed', status: 502, url: () => rig.url().replace('http:', 'https:') },
    { code: 'media_protocol_error', status: 502, url: () => rig.url('/zstd') },
    { code: 'media_truncated', status: 502, url: () => rig.url('/cut') },
    { code: 'media_timeout', status: 504, url: () => rig.url('/mute?SECRET') },
  ])('$code is $status, for one and in a batch', async ({ code, status, url }) => {
    const options = { timeout_ms: 400 };
    const one = await rig.post(fetchPath, { url: url(), options });
    expect(one.json()).toMatchObject({ code, status, type: `urn:media:problem:${code}` });
    expect(one.status).toBe(status);
    expect(one.bytes.toString()).not.toMatch(/SECRET|127\.0\.0\.1|169\.254/);
    expect(one.json()).not.toHaveProperty('index');
    const { 'x-content-type-options': nosniff } = one.headers;
    expect(nosniff).toBe('nosniff');
    const batch = await rig.post(batchPath, inTwo(url(), options));
    expect(batch.status).toBe(status);
    expect(batch.json()).toMatchObject({ code, index: 1, id: 'it' });
  });

  it.each([
    { status: 404, retryable: false },
    { status: 429, retryable: true },
    { status: 503, retryable: true },
  ])('an origin that answers $status is retryable: $retryable', async ({ status, retryable }) => {
    const { json } = await rig.post(fetchPath, { url: rig.url(`/status/${status}`) });
    expect(json()).toMatchObject({ origin_status: status, retryable });
  });

  it('name the rule that a redirect broke, and how far it got', async () => {
    const url = rig.url(`/to/${encodeURIComponent('http://10.0.0.1/')}`);
    const { json } = await rig.post(fetchPath, { url });
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
    const { status, headers, json, bytes } = await rig.post(fetchPath, body);
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
    const { status, json } = await rig.post(batchPath, body);
    expect({ status, code: json()['code'] }).toEqual({ status: 400, code: 'request_invalid' });
  });

  it.each([
    { path: '/v1/media/else', status: 404, code: 'unknown_path' },
    { path: '/v1/media/fetch?url=http://example.com', status: 405, code: 'method_not_allowed' },
  ])('GET $path is $status', async ({ path, status, code }) => {
    const answer = await rig.get(path);
    expect(answer.status).toBe(status);
    expect(answer.headers['x-content-type-options']).toBe('nosniff');
    expect(answer.json()).toMatchObject({ code, status });
  });

  it('a body of more than 1 MB beside its inline media is 413', async () => {
    const body = { url: `http://a.org/${'x'.repeat(1024 * 1024)}` };
    expect((await rig.post(fetchPath, body)).json()).toMatchObject({
      ...{ status: 413, code: 'request_too_large' },
    });
  });

  it('inline media over the limit of an item is 413, whatever is announced', async () => {
    const payload = Buffer.concat([png, Buffer.alloc(1024 * 1024)]).toString('base64');
    const { status, json } = await rig.post(fetchPath, { url: `data:image/png;base64,${payload}` });
    expect({ status, code: json()['code'] }).toEqual({ status: 413, code: 'media_too_large' });
  });

  it('a body over every limit is 413 before it is read', async () => {
    const { status, json } = await rig.post(fetchPath, ' '.repeat(5 * 1024 * 1024));
    expect({ status, code: json()['code'] }).toEqual({ status: 413, code: 'request_too_large' });
  });
});
