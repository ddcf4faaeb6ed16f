import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { batchPath, digest, framesOf, png, Rig } from './testing.ts';

let rig: Rig;
beforeAll(async () => {
  rig = await Rig.open();
});
afterAll(() => rig.close());

describe('POST /v1/media/batch (1.5)', () => {
  const two = () => ({
    items: [
      { id: 'x', url: rig.url('/1.png') },
      { url: rig.url('/2.png'), modality: 'image' },
    ],
  });
  const oneBad = () => ({
    items: [
      { id: 'good', url: rig.url('/1.png') },
      { id: 'bad', url: rig.url('/status/404') },
    ],
  });

  it('answers JSON in the order of the request, with ids', async () => {
    const { status, json } = await rig.post(batchPath, two());
    expect(status).toBe(200);
    expect(json()).toEqual({
      results: ['x', '1'].map((id) =>
        expect.objectContaining({ id, ok: true, sha256: digest, data: png.toString('base64') }),
      ),
    });
  });

  it('answers lines to accept: application/x-ndjson', async () => {
    const { headers, bytes } = await rig.post(batchPath, two(), { accept: 'application/x-ndjson' });
    expect(headers['content-type']).toBe('application/x-ndjson');
    const lines = bytes.toString().trimEnd().split('\n');
    expect(lines.map((line) => (JSON.parse(line) as { id: string }).id)).toEqual(['x', '1']);
  });

  it('answers frames to accept: application/x-media-frames', async () => {
    const { headers, bytes } = await rig.post(batchPath, two(), {
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
      const { status, headers, json } = await rig.post(batchPath, oneBad(), { accept });
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
    const json = await rig.post(batchPath, body);
    expect(json.status).toBe(200);
    expect(json.json()).toEqual({
      results: [
        expect.objectContaining({ id: 'good', ok: true }),
        { id: 'bad', ok: false, error: problem },
      ],
    });
    const lines = await rig.post(batchPath, body, { accept: 'application/x-ndjson' });
    const parsed = lines.bytes.toString().trimEnd().split('\n');
    expect(parsed.map((line) => (JSON.parse(line) as { ok: boolean }).ok).toSorted()).toEqual([
      ...[false, true],
    ]);
    const frames = framesOf(
      (await rig.post(batchPath, body, { accept: 'application/x-media-frames' })).bytes,
    );
    expect(frames.map(({ header, bytes }) => [header['ok'], bytes.length])).toEqual([
      [true, png.length],
      [false, 0],
    ]);
    expect(frames[1]?.header).toEqual({ id: 'bad', ok: false, byte_length: 0, error: problem });
  });

  it('refuses an item for itself without fail_fast, also by its URL alone', async () => {
    const items = [{ url: rig.url() }, { url: 'http://localhost/' }, { url: 'file:///etc/passwd' }];
    const { status, json } = await rig.post(batchPath, { items, fail_fast: false });
    expect(status).toBe(200);
    expect(json()).toMatchObject({
      results: [
        { ok: true },
        { ok: false, error: { code: 'media_host_not_allowed', index: 1 } },
        { ok: false, error: { code: 'media_scheme_not_allowed', index: 2 } },
      ],
    });
  });

  it('warns of blocked addresses, and not without end', async () => {
    const items = Array.from({ length: 60 }, (_, i) => ({ url: `http://10.0.0.1/${i}` }));
    await rig.post(batchPath, { items, fail_fast: false });
    const lines = rig.fetcher.lines.filter(({ code }) => code === 'media_address_blocked');
    expect(lines).toHaveLength(60);
    const warnings = lines.filter(({ level }) => level === 'warn').length;
    // Two seconds' worth, should the second change in between.
    expect([10, 20]).toContain(warnings);
  });

  it('writes a line as soon as its item is there', async () => {
    const items = [{ url: rig.url('/mute') }, { url: rig.url('/fast.png') }];
    const body = { items, fail_fast: false, options: { timeout_ms: 300 } };
    const { bytes } = await rig.post(batchPath, body, { accept: 'application/x-ndjson' });
    const lines = bytes.toString().trimEnd().split('\n');
    expect(lines.map((line) => (JSON.parse(line) as { id: string }).id)).toEqual(['1', '0']);
  });

  it('fetches equal references once', async () => {
    const url = rig.url('/equal.png');
    for (const failFast of [true, false]) {
      await rig.post(batchPath, { items: [{ url }, { url }, { url }], fail_fast: failFast });
    }
    expect(rig.origin.asked.filter((path) => path === '/equal.png')).toHaveLength(2);
  });

  it.each([true, false])('keeps to the total, fail_fast: %s', async (failFast) => {
    const items = [{ url: rig.url('/1.png') }, { url: rig.url('/2.png') }];
    const options = { max_total_bytes: png.length + 1 };
    const { json } = await rig.post(batchPath, { items, options, fail_fast: failFast });
    const text = JSON.stringify(json());
    expect(text).toContain('media_total_too_large');
    expect(text.includes('"ok":true')).toBe(!failFast);
  });
});
