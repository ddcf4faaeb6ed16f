import { createHash } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { fetchPath, photo, Rig } from './testing.ts';

let rig: Rig;
beforeAll(async () => {
  rig = await Rig.open();
});
afterAll(() => rig.close());

describe('options (1.4)', () => {
  it('never loosen what the configuration says', async () => {
    const options = { max_bytes: 1e9, max_total_bytes: 1e9, timeout_ms: 1e6, max_redirects: 99 };
    const big = await rig.post(fetchPath, { url: rig.url('/big'), options });
    expect(big.json()).toMatchObject({ code: 'media_too_large', limit: 1_048_576 });
    const opened = { content_check: 'off', allow_private_networks: true };
    const html = await rig.post(fetchPath, { url: rig.url('/html'), options: opened });
    expect(html.json()).toMatchObject({ code: 'media_type_not_allowed' });
    const inner = await rig.post(fetchPath, { url: 'http://10.0.0.1/', options: opened });
    expect(inner.json()).toMatchObject({ code: 'media_address_blocked' });
    const named = { allowed_domains: ['localhost'] };
    const local = await rig.post(fetchPath, { url: 'http://localhost/', options: named });
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
    const { json } = await rig.post(fetchPath, { url: rig.url(), options });
    expect(json()['code']).toBe(code);
  });

  it('transform: fit shrinks an image, and source tells what it was', async () => {
    const fit = { mode: 'fit', factor: 28, min_pixels: 3136, max_pixels: 100_000 };
    const { json } = await rig.post(fetchPath, {
      url: rig.url('/photo'),
      options: { transform: fit },
    });
    const { width, height, byte_length: byteLength } = json() as Record<string, number>;
    expect((width ?? 0) * (height ?? 0)).toBeLessThanOrEqual(100_000);
    expect([(width ?? 1) % 28, (height ?? 1) % 28]).toEqual([0, 0]);
    expect(byteLength).toBeLessThan(photo.length);
    const sha256 = createHash('sha256').update(photo).digest('hex');
    expect(json()).toMatchObject({
      transformed: true,
      source: { byte_length: photo.length, sha256 },
    });
    const off = await rig.post(fetchPath, {
      ...{ url: rig.url('/photo'), options: { transform: { mode: 'off' } } },
    });
    expect(off.json()).toMatchObject({ transformed: false, sha256, width: 640, height: 480 });
  });

  it('inline_bytes count towards the total', async () => {
    const options = { inline_bytes: 2 * 1024 * 1024 };
    const { json } = await rig.post(fetchPath, { url: rig.url(), options });
    expect(json()['code']).toBe('media_total_too_large');
  });

  it('max_redirects: 0 takes no redirect', async () => {
    const url = rig.url('/to/%2Fb.png');
    expect((await rig.post(fetchPath, { url })).status).toBe(200);
    const { json } = await rig.post(fetchPath, { url, options: { max_redirects: 0 } });
    expect(json()['code']).toBe('media_too_many_redirects');
  });
});
