import { describe, expect, it } from '@jest/globals';
import { checkImageSize, imageSize } from './image-size.ts';
import { defaultMediaLimits } from './options.ts';
import { hasWholeTail } from './tail-check.ts';
import { failureOf, gif, jpeg, png, pngOf, webp } from './testing.ts';

function webpOf(chunk: string, payloadHex: string): Buffer {
  return Buffer.concat([
    Buffer.from('RIFF\0\0\0\0WEBP', 'latin1'),
    Buffer.from(`${chunk}\0\0\0\0`, 'latin1'),
    Buffer.from(payloadHex, 'hex'),
    Buffer.alloc(16),
  ]);
}

describe('the size in an image header', () => {
  it.each([
    ['PNG', 'image/png', pngOf(640, 480), { width: 640, height: 480 }],
    ['GIF', 'image/gif', gif, { width: 1, height: 1 }],
    ['WebP, lossy', 'image/webp', webp, { width: 1, height: 1 }],
    // 14 bits each: 16383 and 2, minus one.
    ['WebP, lossless', 'image/webp', webpOf('VP8L', '2ffe7f0000'), { width: 16383, height: 2 }],
    [
      'WebP, extended',
      'image/webp',
      webpOf('VP8X', '000000007f02002f0100'),
      { width: 640, height: 304 },
    ],
    ['JPEG', 'image/jpeg', jpeg(), { width: 3, height: 2 }],
    ['JPEG behind large EXIF', 'image/jpeg', jpeg(60_000), { width: 3, height: 2 }],
    [
      'JPEG with fill bytes',
      'image/jpeg',
      Buffer.from('ffd8ffffffc20011080010002003', 'hex'),
      { width: 32, height: 16 },
    ],
  ])('%s', (_, type, bytes, size) => {
    expect(imageSize(type, bytes)).toEqual(size);
  });

  it.each([
    ['PNG without IHDR', 'image/png', Buffer.from(png).fill(0, 12, 16)],
    ['PNG cut', 'image/png', png.subarray(0, 20)],
    ['GIF cut', 'image/gif', gif.subarray(0, 8)],
    ['WebP cut', 'image/webp', webp.subarray(0, 29)],
    ['WebP of another kind', 'image/webp', webpOf('ANIM', '00')],
    ['WebP without start code', 'image/webp', webpOf('VP8 ', '0000000000000000')],
    ['JPEG, only table segments', 'image/jpeg', Buffer.from('ffd8ffc40003ffffd9', 'hex')],
    ['JPEG, scan first', 'image/jpeg', Buffer.from('ffd8ffda000c030100021103', 'hex')],
    ['JPEG, not even a marker', 'image/jpeg', Buffer.from('ffd8000000000000000000', 'hex')],
    [
      'JPEG, restart markers to the end',
      'image/jpeg',
      Buffer.from('ffd8ffd0ffd1ffd2ffd3ffd4ffd5', 'hex'),
    ],
    ['JPEG, garbage', 'image/jpeg', Buffer.from('ffd8ff000000000000000000', 'hex')],
    ['an unknown type', 'image/bmp', Buffer.alloc(64)],
    ['nothing', 'image/jpeg', Buffer.alloc(0)],
  ])('is unknown for %s', (_, type, bytes) => {
    expect(imageSize(type, bytes)).toBeUndefined();
  });
});

describe('the pixel limits', () => {
  const check = (width: number, height: number, mode: 'sniff' | 'strict' = 'sniff'): void => {
    checkImageSize('downloading image', { width, height }, mode, defaultMediaLimits);
  };

  it('accept what lies on them', () => {
    expect(() => {
      check(10_000, 5_000);
      check(32_768, 1);
      check(5, 30_000);
      checkImageSize('downloading image', undefined, 'sniff', defaultMediaLimits);
    }).not.toThrow();
  });

  it.each<[number, number, 'sniff' | 'strict', number]>([
    [60_000, 60_000, 'sniff', 50_000_000],
    [10_000, 5_001, 'sniff', 50_000_000],
    [32_769, 1, 'sniff', 32_768],
    [5, 30_000, 'strict', 200],
  ])('refuse %i x %i with %s', async (width, height, mode, limit) => {
    const failure = await failureOf(() => {
      check(width, height, mode);
    });
    expect(failure).toMatchObject({ code: 'media_dimensions_exceeded', limit });
    expect(failure.message).toContain(`${width}x${height}`);
  });

  it('need a readable header with strict', async () => {
    const failure = await failureOf(() => {
      checkImageSize('downloading image', undefined, 'strict', defaultMediaLimits);
    });
    expect(failure.code).toBe('media_content_invalid');
  });
});

describe('the end of an image', () => {
  it.each([
    ['image/jpeg', jpeg(), true],
    ['image/jpeg', jpeg().subarray(0, -1), false],
    ['image/png', png, true],
    ['image/png', png.subarray(0, -12), false],
    ['image/gif', gif, true],
    ['image/gif', Buffer.concat([gif, Buffer.alloc(3)]), true],
    ['image/gif', Buffer.concat([gif, Buffer.from([1])]), false],
    ['image/webp', webp, true],
    ['image/webp', webp.subarray(0, -1), false],
    ['image/bmp', Buffer.from('BM'), true],
  ])('%s %#', (type, bytes, isWhole) => {
    expect(hasWholeTail(type, bytes)).toBe(isWhole);
  });
});
