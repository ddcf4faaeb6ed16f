import { describe, expect, it } from '@jest/globals';
import sharp from 'sharp';
import { imageDetails } from './image-details.ts';
import {
  gif,
  image,
  jpeg,
  loopbackFetcher,
  never,
  optionsWith,
  png,
  startOrigin,
  webp,
} from './testing.ts';

/** A picture of three frames, one below the other. */
function animation() {
  const [width, height] = [8, 24];
  const pixels = Buffer.from(Array.from({ length: width * height * 3 }, (_, i) => (i * 7) % 256));
  return sharp(pixels, { raw: { width, height, channels: 3, pageHeight: 8 } });
}

/** A PNG with a chunk behind its header. */
function withChunk(name: string, data: Buffer): Buffer {
  const length = Buffer.alloc(4);
  length.writeUInt32BE(data.length);
  const chunk = Buffer.concat([length, Buffer.from(name), data, Buffer.alloc(4)]);
  return Buffer.concat([png.subarray(0, 33), chunk, png.subarray(33)]);
}

const still = { orientation: 1, frames: 1 };
const turned = (format: 'jpeg' | 'webp' | 'png', orientation: number) =>
  sharp({ create: { width: 4, height: 2, channels: 3, background: '#123' } })
    .withMetadata({ orientation })
    .toFormat(format)
    .toBuffer();

describe('the details of an image', () => {
  it.each([
    { name: 'a GIF', type: 'image/gif', bytes: gif },
    { name: 'a PNG', type: 'image/png', bytes: png },
    { name: 'a WebP', type: 'image/webp', bytes: webp },
    { name: 'a JPEG with empty EXIF', type: 'image/jpeg', bytes: jpeg() },
    { name: 'something else', type: 'image/bmp', bytes: png },
    { name: 'nothing', type: 'image/jpeg', bytes: Buffer.alloc(0) },
    { name: 'a GIF that is cut', type: 'image/gif', bytes: gif.subarray(0, 20) },
    { name: 'a PNG that is cut', type: 'image/png', bytes: png.subarray(0, 40) },
    {
      name: 'an acTL without number',
      type: 'image/png',
      bytes: withChunk('acTL', Buffer.alloc(0)),
    },
    { name: 'EXIF of no sense', type: 'image/png', bytes: withChunk('eXIf', Buffer.alloc(8, 255)) },
  ])('are those of an upright still picture for $name', ({ type, bytes }) => {
    expect(imageDetails(type, bytes)).toEqual(still);
  });

  it.each([3, 6, 8])('[108] has orientation %i of EXIF', async (orientation) => {
    for (const format of ['jpeg', 'webp', 'png'] as const) {
      const bytes = await turned(format, orientation);
      expect(imageDetails(`image/${format}`, bytes).orientation).toBe(orientation);
    }
  });

  it('[107] has the frames of an animation, whose bytes pass as they are', async () => {
    const files = {
      gif: await animation().gif().toBuffer(),
      webp: await animation().webp().toBuffer(),
    };
    for (const [format, bytes] of Object.entries(files)) {
      await using origin = await startOrigin((_, response) => response.end(bytes));
      await using fetcher = loopbackFetcher();
      const result = await fetcher.fetch(image(`${origin.base}/a`), optionsWith(), never());
      expect(result.bytes.equals(bytes)).toBe(true);
      expect(result.contentType).toBe(`image/${format}`);
      expect(imageDetails(result.contentType, result.bytes).frames).toBe(3);
    }
    const apng = withChunk('acTL', Buffer.from('0000000500000000', 'hex'));
    expect(imageDetails('image/png', apng).frames).toBe(5);
  });
});
