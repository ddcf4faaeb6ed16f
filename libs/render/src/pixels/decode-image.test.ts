import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { crc32, deflateSync, inflateSync } from 'node:zlib';

import { describe, expect, it } from '@jest/globals';
import sharp from 'sharp';

import { pngChunks } from '../image/png-chunks.ts';
import { decodeImage } from './decode-image.ts';

const FILES = join(import.meta.dirname, '../testdata/images/files');
const WHITE = [255, 255, 255] as const;

function read(file: string): Buffer {
  return readFileSync(join(FILES, file));
}

async function pixels(file: Buffer): Promise<number[][]> {
  const { data } = await decodeImage(file, WHITE);
  return Array.from({ length: data.length / 3 }, (_, at) => [...data.subarray(at * 3, at * 3 + 3)]);
}

/** The chunks of a PNG file, changed, with right checksums. */
function editPng(file: Buffer, edit: (type: string, data: Buffer) => Buffer): Buffer {
  const parts = [file.subarray(0, 8)];
  for (const { type, start, end } of pngChunks(file)) {
    const data = edit(type, file.subarray(start + 8, end - 4));
    const body = Buffer.concat([Buffer.from(type), data]);
    const [length, checksum] = [Buffer.alloc(4), Buffer.alloc(4)];
    length.writeUInt32BE(data.length);
    checksum.writeUInt32BE(crc32(body));
    parts.push(length, body, checksum);
  }
  return Buffer.concat(parts);
}

/** Sixteen-bit PNG of one pixel with a transparent colour. */
async function keyedPng(colours: number): Promise<Buffer> {
  const plain = await sharp(Buffer.alloc(colours), {
    raw: { width: 1, height: 1, channels: colours === 1 ? 1 : 3 },
  })
    .toColourspace(colours === 1 ? 'grey16' : 'rgb16')
    .png()
    .toBuffer();
  const key = Buffer.concat([Buffer.from('tRNS'), Buffer.alloc(colours * 2)]);
  const [length, checksum] = [Buffer.alloc(4), Buffer.alloc(4)];
  length.writeUInt32BE(colours * 2);
  checksum.writeUInt32BE(crc32(key));
  const header = 8 + 25;
  return Buffer.concat([plain.subarray(0, header), length, key, checksum, plain.subarray(header)]);
}

describe('decodeImage', () => {
  // 2x1 pixels, red and blue, as they must appear for each orientation.
  it.each([
    [1, 2, ['red', 'blue']],
    [2, 2, ['blue', 'red']],
    [3, 2, ['blue', 'red']],
    [4, 2, ['red', 'blue']],
    [5, 1, ['red', 'blue']],
    [6, 1, ['red', 'blue']],
    [7, 1, ['blue', 'red']],
    [8, 1, ['blue', 'red']],
  ])('turns an image of EXIF orientation %i', async (orientation, width, expected) => {
    const file = await sharp(Buffer.of(255, 0, 0, 0, 0, 255), {
      raw: { width: 2, height: 1, channels: 3 },
    })
      .withMetadata({ orientation })
      .png()
      .toBuffer();
    const image = await decodeImage(file, WHITE);
    expect([image.width, image.height]).toEqual([width, 3 - width]);
    const names = (await pixels(file)).map(([red]) => (red === 255 ? 'red' : 'blue'));
    expect(names).toEqual(expected);
  });

  it('shows a PNG with wrong checksums', async () => {
    const file = read('s-32x32.png');
    const expected = await pixels(file);
    const at = file.indexOf('IEND') - 8;
    file.writeUInt32BE(~file.readUInt32BE(at) >>> 0, at);
    expect(await pixels(file)).toEqual(expected);
  });

  it('refuses a PNG whose pixels are cut although its end is there', async () => {
    const cut = editPng(read('s-32x32.png'), (type, data) =>
      type === 'IDAT' ? data.subarray(0, data.length / 2) : data,
    );
    await expect(decodeImage(cut, WHITE)).rejects.toMatchObject({ status: 400 });
    const whole = editPng(read('s-32x32.png'), (type, data) =>
      type === 'IDAT' ? deflateSync(inflateSync(data)) : data,
    );
    expect(await pixels(whole)).toEqual(await pixels(read('s-32x32.png')));
  });

  it('reads the inks of a CMYK file without an Adobe marker alike', async () => {
    const file = read('m-CMYK.jpg');
    const bare = Buffer.concat([file.subarray(0, 2), file.subarray(4 + file.readUInt16BE(4))]);
    expect(bare.includes('Adobe')).toBe(false);
    expect(await pixels(bare)).toEqual(await pixels(file));
  });

  it('refuses a GIF whose first frame leaves a part open', async () => {
    const opaque = await sharp(Buffer.alloc(12), { raw: { width: 2, height: 2, channels: 3 } })
      .gif()
      .toBuffer();
    expect(await pixels(opaque)).toHaveLength(4);
    // A screen of 3x2 around the frame of 2x2; without a transparent colour it has no defined background.
    opaque.writeUInt16LE(3, 6);
    const control = opaque.indexOf(Buffer.of(0x21, 0xf9));
    if (control >= 0) opaque.writeUInt8(opaque.readUInt8(control + 3) & 0xfe, control + 3);
    await expect(decodeImage(opaque, WHITE)).rejects.toMatchObject({ status: 501 });
  });

  it.each([1, 3])('refuses a 16-bit PNG of %i colours with a transparent one', async (colours) => {
    await expect(decodeImage(await keyedPng(colours), WHITE)).rejects.toMatchObject({
      status: 501,
    });
  });

  it.each(['x-trunc.jpg', 'x-trunc.png', 'x-text.bin', 'x-empty.bin'])(
    'refuses %s',
    async (file) => {
      await expect(decodeImage(read(file), WHITE)).rejects.toMatchObject({ status: 400 });
    },
  );
});
