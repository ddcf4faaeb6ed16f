import { readFileSync } from 'node:fs';
import { join } from 'node:path';

import { describe, expect, it } from '@jest/globals';
import sharp from 'sharp';

import { decodeImage } from '../pixels/decode-image.ts';
import { readImageHeader } from './image-header.ts';

const FILES = join(import.meta.dirname, '../testdata/images/files');
const WHITE = [255, 255, 255] as const;
const LIMIT = 1_000_000;
const bmp = readFileSync(join(FILES, 'm.bmp'));
const tiff = readFileSync(join(FILES, 'm.tiff'));
const noise = sharp(Buffer.from(Array.from({ length: 10 * 6 * 3 }, (_, at) => (at * 37) % 256)), {
  raw: { width: 10, height: 6, channels: 3 },
});

/** The bitmap with its rows from the top down: a negative height, rows in the other order. */
function turnedOver(file: Buffer): Buffer {
  const [stride, height] = [120, 30];
  const turned = Buffer.from(file);
  turned.writeInt32LE(-height, 22);
  for (let y = 0; y < height; y++) {
    file.copy(turned, 54 + y * stride, 54 + (height - 1 - y) * stride, 54 + (height - y) * stride);
  }
  return turned;
}

function changed(file: Buffer, change: (copy: Buffer) => void): Buffer {
  const copy = Buffer.from(file);
  change(copy);
  return copy;
}

describe('BMP', () => {
  it('gives the same pixels from the bottom up and from the top down', async () => {
    const plain = await decodeImage(bmp, WHITE);
    expect(await decodeImage(turnedOver(bmp), WHITE)).toEqual(plain);
    expect(await readImageHeader(bmp, LIMIT)).toEqual({
      width: 40,
      height: 30,
      isConverted: false,
    });
  });

  it.each([
    { name: 'cut short', file: bmp.subarray(0, 3000), message: /truncated/ },
    { name: 'compressed', file: changed(bmp, (copy) => copy.writeUInt32LE(1, 30)), message: /bmp/ },
    { name: 'of 8 bits', file: changed(bmp, (copy) => copy.writeUInt16LE(8, 28)), message: /bmp/ },
    {
      name: 'too large',
      file: changed(bmp, (copy) => copy.writeInt32LE(1e6, 18)),
      message: /limit/,
    },
    { name: 'of no width', file: changed(bmp, (copy) => copy.writeInt32LE(0, 18)), message: /bmp/ },
  ])('$name is refused with 400', async ({ file, message }) => {
    await expect(readImageHeader(file, LIMIT)).rejects.toMatchObject({
      status: 400,
      message: expect.stringMatching(message),
    });
  });
});

describe('TIFF', () => {
  it.each(['none', 'lzw', 'deflate', 'packbits'] as const)(
    'of plain RGB under %s keeps its pixels',
    async (compression) => {
      const file = await noise.clone().tiff({ compression }).toBuffer();
      expect(await readImageHeader(file, LIMIT)).toMatchObject({ width: 10, isConverted: false });
      const { data } = await decodeImage(file, WHITE);
      expect(Buffer.from(data)).toEqual(await noise.clone().raw().toBuffer());
    },
  );

  it.each([
    {
      name: 'with lossy compression',
      make: () => noise.clone().tiff({ compression: 'jpeg' }).toBuffer(),
    },
    { name: 'with transparency', make: () => noise.clone().ensureAlpha(0.5).tiff().toBuffer() },
    { name: 'of grey', make: () => noise.clone().greyscale().tiff().toBuffer() },
    {
      name: 'of one bit',
      make: () => noise.clone().greyscale().threshold().tiff({ bitdepth: 1 }).toBuffer(),
    },
    { name: 'without its last byte', make: () => Promise.resolve(changedLength(tiff)) },
  ])('$name is refused with 400', async ({ make }) => {
    await expect(readImageHeader(await make(), LIMIT)).rejects.toMatchObject({ status: 400 });
  });
});

/** The file with its only strip one byte longer than the file. */
function changedLength(file: Buffer): Buffer {
  const entry = file.indexOf(Buffer.from([279 & 0xff, 279 >> 8, 4, 0, 1, 0, 0, 0]));
  return changed(file, (copy) => copy.writeUInt32LE(file.length, entry + 8));
}
