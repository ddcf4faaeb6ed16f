import { createHash } from 'node:crypto';
import { crc32, deflateSync } from 'node:zlib';
import { describe, expect, it } from '@jest/globals';
import sharp from 'sharp';
import { imageDetails } from '../image-details.ts';
import { type MediaResult } from '../media-result.ts';
import { type MediaFetchOptions } from '../options.ts';
import { failureOf, image, loopbackFetcher, never, optionsWith, startOrigin } from '../testing.ts';
import { type TransformRules } from './rules.ts';

const fit: TransformRules = {
  mode: 'fit',
  factor: 28,
  minPixels: 3_136,
  maxPixels: 100_000,
  output: 'auto',
  background: '#ffffff',
  bakesOrientation: false,
};

/** What a fetcher makes of bytes that an origin serves. */
async function fetched(
  bytes: Buffer,
  changes: Partial<MediaFetchOptions> = { transform: fit },
): Promise<MediaResult> {
  await using origin = await startOrigin((_, response) => response.end(bytes));
  await using fetcher = loopbackFetcher();
  // Without `await` the fetcher would be closed before.
  return await fetcher.fetch(image(`${origin.base}/a`), optionsWith(changes), never());
}

const failure = (bytes: Buffer, changes: Partial<MediaFetchOptions>) =>
  failureOf(() => fetched(bytes, changes));
const strict: Partial<MediaFetchOptions> = { transform: fit, contentCheck: 'strict' };

/** A picture whose left half is red and whose right half is blue. */
function halves(width: number, height: number, channels: 3 | 4 = 3) {
  const pixels = Buffer.alloc(width * height * channels);
  for (let i = 0; i < width * height; i += 1) {
    const isLeft = i % width < width / 2;
    pixels.set(isLeft ? [255, 0, 0] : [0, 0, 255], i * channels);
    if (channels === 4) pixels[i * channels + 3] = isLeft ? 0 : 255;
  }
  return sharp(pixels, { raw: { width, height, channels } });
}

/** The colour of a pixel in the middle of the upper half, without noise of the encoder. */
async function colourAt(bytes: Buffer, x: number, y: number): Promise<number[]> {
  const { data, info } = await sharp(bytes).raw().toBuffer({ resolveWithObject: true });
  const column = Math.floor(info.width * x);
  const start = (Math.floor(info.height * y) * info.width + column) * info.channels;
  return [...data.subarray(start, start + info.channels)].map((value) => Math.round(value / 51));
}

const sizeOf = async (bytes: Buffer) => {
  const { width, height, format, space, exif, hasAlpha, depth } = await sharp(bytes).metadata();
  return { width, height, format, space, exif, hasAlpha, depth };
};
const noise = (width: number, height: number) =>
  sharp({
    create: {
      width,
      height,
      channels: 3,
      noise: { type: 'gaussian', mean: 128, sigma: 40 },
      background: '#000',
    },
  });

/** Without its second half. */
async function cutJpeg(): Promise<Buffer> {
  const whole = await noise(600, 400).jpeg().toBuffer();
  return whole.subarray(0, whole.length >> 1);
}

/** With a beginning and an end, and zeros where the middle was. */
async function hollowPng(): Promise<Buffer> {
  const whole = await noise(600, 400).png().toBuffer();
  return whole.fill(0, whole.length >> 2, whole.length >> 1);
}

/** A real PNG of one bit for each pixel, with nothing on it. */
function blankPng(side: number): Buffer {
  const chunk = (name: string, data: Buffer): Buffer => {
    const body = Buffer.concat([Buffer.from(name), data]);
    const [length, sum] = [Buffer.alloc(4), Buffer.alloc(4)];
    length.writeUInt32BE(data.length);
    sum.writeUInt32BE(crc32(body));
    return Buffer.concat([length, body, sum]);
  };
  const header = Buffer.alloc(13);
  header.writeUInt32BE(side, 0);
  header.writeUInt32BE(side, 4);
  header[8] = 1;
  const rows = deflateSync(Buffer.alloc(side * (1 + side / 8)), { level: 1 });
  const parts = [chunk('IHDR', header), chunk('IDAT', rows), chunk('IEND', Buffer.alloc(0))];
  return Buffer.concat([Buffer.from('89504e470d0a1a0a', 'hex'), ...parts]);
}

describe('a transform', () => {
  it('[108] that is off leaves the bytes of a turned picture as they are', async () => {
    const bytes = await halves(600, 400).withMetadata({ orientation: 6 }).jpeg().toBuffer();
    const result = await fetched(bytes, {});
    expect(result.bytes.equals(bytes)).toBe(true);
    expect(imageDetails(result.contentType, result.bytes).orientation).toBe(6);
    expect([result.width, result.height]).toEqual([600, 400]);
    expect(result.facts.transform).toBeUndefined();
  });

  it('[109] turns a large picture upright, at the size of the upright one, without EXIF', async () => {
    const bytes = await halves(600, 400).withMetadata({ orientation: 6 }).jpeg().toBuffer();
    const result = await fetched(bytes);
    expect(result.facts.transform).toMatchObject({ result: 'shrunk', sourceBytes: bytes.length });
    expect(await sizeOf(result.bytes)).toMatchObject({
      ...{ width: 252, height: 364, format: 'jpeg', exif: undefined },
    });
    // Turned to the right, what was left is above.
    expect(await colourAt(result.bytes, 0.5, 0.2)).toEqual([5, 0, 0]);
    expect(await colourAt(result.bytes, 0.5, 0.8)).toEqual([0, 0, 5]);
  });

  it('turns a small picture upright only where that is asked for', async () => {
    const bytes = await halves(60, 40).withMetadata({ orientation: 6 }).jpeg().toBuffer();
    expect((await fetched(bytes)).bytes.equals(bytes)).toBe(true);
    const baked = await fetched(bytes, { transform: { ...fit, bakesOrientation: true } });
    expect(await sizeOf(baked.bytes)).toMatchObject({ width: 40, height: 60, exif: undefined });
    const broken = bytes.subarray(0, bytes.length - 40);
    const kept = await fetched(broken, { transform: { ...fit, bakesOrientation: true } });
    expect(kept.bytes.equals(broken)).toBe(true);
  });

  it('[110] makes sRGB of 8 bits out of CMYK, 16 bits and wide colours', async () => {
    const sources = [
      await halves(600, 400).toColourspace('cmyk').jpeg().toBuffer(),
      await noise(600, 400).toColourspace('rgb16').png().toBuffer(),
      await halves(600, 400).withIccProfile('p3').jpeg().toBuffer(),
    ];
    for (const source of sources) {
      const { bytes } = await fetched(source);
      expect(await sizeOf(bytes)).toMatchObject({ space: 'srgb', depth: 'uchar', hasAlpha: false });
    }
  });

  it('[110] keeps transparency, or puts the background behind it', async () => {
    const source = await halves(600, 400, 4).png().toBuffer();
    const kept = await fetched(source, { transform: { ...fit, maxPixels: 20_000 } });
    if (kept.facts.transform?.result === 'shrunk') {
      expect(await sizeOf(kept.bytes)).toMatchObject({ format: 'webp', hasAlpha: true });
    }
    expect((await colourAt(kept.bytes, 0.1, 0.5))[3]).toBe(0);
    const noisy = await noise(600, 400)
      .joinChannel(Buffer.alloc(240_000), { raw: { width: 600, height: 400, channels: 1 } })
      .png()
      .toBuffer();
    const flat = await fetched(noisy, { transform: { ...fit, output: 'jpeg' } });
    expect(flat.facts.transform?.result).toBe('shrunk');
    expect(flat.contentType).toBe('image/jpeg');
    expect(await colourAt(flat.bytes, 0.5, 0.5)).toEqual([5, 5, 5]);
  });

  it('[111] leaves a picture at or under the limit as it is', async () => {
    const bytes = await noise(400, 250).jpeg().toBuffer();
    const result = await fetched(bytes);
    const digest = (content: Buffer) => createHash('sha256').update(content).digest('hex');
    expect(digest(result.bytes)).toBe(digest(bytes));
    expect(result.facts.transform?.result).toBe('unchanged');
  });

  it.each([
    { row: 112, width: 4032, height: 3024, to: [1148, 840] },
    { row: 113, width: 3840, height: 2160, to: [1316, 728] },
  ])(
    '[$row] shrinks $width x $height to $to exactly',
    async ({ width, height, to }) => {
      const create = { width, height, channels: 3, background: '#246' } as const;
      const bytes = await sharp({ create }).jpeg().toBuffer();
      const result = await fetched(bytes, {
        transform: { ...fit, maxPixels: 1_003_520 },
        downloadTimeoutMs: 60_000,
      });
      expect([result.width, result.height]).toEqual(to);
    },
    60_000,
  );

  it('[114] does nothing the second time', async () => {
    const once = await fetched(await noise(900, 700).jpeg().toBuffer());
    expect(once.facts.transform?.result).toBe('shrunk');
    const twice = await fetched(once.bytes);
    expect(twice.bytes.equals(once.bytes)).toBe(true);
    expect(twice.facts.transform?.result).toBe('unchanged');
  });

  it('[115] keeps a broken picture as it is, or refuses it with strict', async () => {
    for (const broken of [await cutJpeg(), await hollowPng()]) {
      const result = await fetched(broken);
      expect(result.bytes.equals(broken)).toBe(true);
      expect(result.facts.transform?.result).toBe('failed');
      expect(await failure(broken, strict)).toMatchObject({
        ...{ code: 'media_content_invalid', stepStatus: 400 },
      });
    }
  });

  it('[105] a JPEG cut in half passes with sniff, and not with strict', async () => {
    const cut = await cutJpeg();
    expect((await fetched(cut, {})).bytes.equals(cut)).toBe(true);
    expect((await failure(cut, { contentCheck: 'strict' })).code).toBe('media_content_invalid');
  });

  it('[105] what only a decoder finds out passes unless strict decodes', async () => {
    const options = { contentCheck: 'strict', decodesStrictly: true } as const;
    const hollow = await hollowPng();
    expect((await fetched(hollow, { contentCheck: 'strict' })).byteLength).toBe(hollow.length);
    expect((await failure(hollow, options)).code).toBe('media_content_invalid');
    const whole = await noise(600, 400).png().toBuffer();
    expect((await fetched(whole, options)).bytes.equals(whole)).toBe(true);
  });

  it('[100] AVIF is refused, passed on, or made into JPEG or WebP', async () => {
    const avif = await halves(60, 40).avif().toBuffer();
    expect((await failure(avif, {})).code).toBe('media_type_not_allowed');
    const allowed = await fetched(avif, { allowedImageTypes: ['image/avif'] });
    expect([allowed.contentType, allowed.bytes.equals(avif)]).toEqual(['image/avif', true]);
    const made = await fetched(avif, { transcodeImageTypes: ['image/avif'] });
    expect(made.contentType).toBe('image/jpeg');
    expect(await sizeOf(made.bytes)).toMatchObject({ width: 60, height: 40, format: 'jpeg' });
    const transparent = await halves(60, 40, 4).avif().toBuffer();
    const kept = await fetched(transparent, { transcodeImageTypes: ['image/avif'] });
    expect(await sizeOf(kept.bytes)).toMatchObject({ format: 'webp', hasAlpha: true });
    const broken = Buffer.concat([avif.subarray(0, 40), Buffer.alloc(100)]);
    const refused = await failure(broken, { transcodeImageTypes: ['image/avif'] });
    expect(refused.code).toBe('media_content_invalid');
  });

  it('[103] refuses a bomb by its header, before anything decodes it', async () => {
    const bomb = blankPng(16_000);
    const before = process.memoryUsage().rss;
    expect((await failure(bomb, { transform: fit })).code).toBe('media_dimensions_exceeded');
    expect(process.memoryUsage().rss - before).toBeLessThan(30 * 1024 * 1024);
    const long = await sharp({
      create: { width: 5, height: 30_000, channels: 3, background: '#fff' },
    })
      .png()
      .toBuffer();
    expect((await fetched(long, {})).byteLength).toBe(long.length);
    expect((await failure(long, { contentCheck: 'strict' })).code).toBe(
      'media_dimensions_exceeded',
    );
    expect((await failure(long, { transform: { ...fit, maxPixels: 100 } })).code).toBe(
      'media_dimensions_exceeded',
    );
  });

  it('takes the first picture of an animation', async () => {
    const frames = await noise(200, 400).raw().toBuffer();
    const raw = { width: 200, height: 400, channels: 3, pageHeight: 200 } as const;
    const gif = await sharp(frames, { raw }).gif({ effort: 1, colours: 16 }).toBuffer();
    expect(imageDetails('image/gif', gif).frames).toBe(2);
    const result = await fetched(gif, { transform: { ...fit, maxPixels: 4_000 } });
    expect(result.facts.transform?.result).toBe('shrunk');
    expect((await sharp(result.bytes).metadata()).pages ?? 1).toBe(1);
  });

  it('keeps the original where the result would not be smaller', async () => {
    const bytes = await halves(600, 400).png({ compressionLevel: 9, palette: true }).toBuffer();
    const result = await fetched(bytes, { transform: { ...fit, output: 'jpeg' } });
    expect(result.bytes.equals(bytes)).toBe(true);
    expect(result.facts.transform?.result).toBe('unchanged');
  });

  it('never holds the event loop for 30 ms', async () => {
    const bytes = await noise(1500, 1000).jpeg().toBuffer();
    await fetched(bytes); // loads sharp
    await using origin = await startOrigin((_, response) => response.end(bytes));
    await using fetcher = loopbackFetcher();
    const refs = Array.from({ length: 8 }, (_, i) => image(`${origin.base}/${i}`));
    const options = optionsWith({ transform: fit, downloadTimeoutMs: 60_000 });
    // CPU and not time, since this thread is not alone on its core.
    let isOver = false;
    let longestMs = 0;
    let before = process.threadCpuUsage();
    const turn = (): void => {
      const { user, system } = process.threadCpuUsage(before);
      before = process.threadCpuUsage();
      longestMs = Math.max(longestMs, (user + system) / 1000);
      if (!isOver) setImmediate(turn);
    };
    turn();
    const all = process.cpuUsage();
    await fetcher.fetchMany(refs, options, never());
    isOver = true;
    const { user, system } = process.cpuUsage(all);
    expect(longestMs).toBeLessThan(30);
    // Something was decoded, elsewhere.
    expect((user + system) / 1000).toBeGreaterThan(longestMs);
  }, 60_000);
});
