import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';

import { resize, type ResizeWeights } from './resize.ts';
import { type RgbImage } from './rgb-image.ts';

const side = fc.integer({ min: 1, max: 60 });
const color = fc.tuple(fc.nat(255), fc.nat(255), fc.nat(255));

const image: fc.Arbitrary<RgbImage> = fc
  .tuple(side, side)
  .chain(([width, height]) =>
    fc
      .uint8Array({ minLength: width * height * 3, maxLength: width * height * 3 })
      .map((data) => ({ width, height, data })),
  );

function filled(width: number, height: number, pixel: readonly number[]): Uint8Array {
  return Uint8Array.from({ length: width * height * 3 }, (_, at) => pixel[at % 3] ?? 0);
}

describe.each<ResizeWeights>(['torch', 'pillow'])('resize with the weights of %s', (weights) => {
  it('keeps one colour one colour', () => {
    fc.assert(
      fc.property(color, side, side, side, side, (pixel, width, height, toWidth, toHeight) => {
        const source = { width, height, data: filled(width, height, pixel) };
        const { data } = resize(source, toWidth, toHeight, weights);
        expect(Buffer.from(data).equals(filled(toWidth, toHeight, pixel))).toBe(true);
      }),
    );
  });

  it('keeps an image of the right size', () => {
    fc.assert(
      fc.property(image, (source) => {
        expect(resize(source, source.width, source.height, weights)).toBe(source);
      }),
    );
  });

  it('mirrors when the image is mirrored', () => {
    fc.assert(
      fc.property(image, side, side, (source, width, height) => {
        const straight = resize(source, width, height, weights);
        const turned = resize(mirror(source), width, height, weights);
        expect(Buffer.from(mirror(turned).data).equals(straight.data)).toBe(true);
      }),
    );
  });
});

function mirror({ width, height, data }: RgbImage): RgbImage {
  const pixels = width * height;
  const mirrored = new Uint8Array(data.length);
  for (let pixel = 0; pixel < pixels; pixel++) {
    mirrored.set(data.subarray(pixel * 3, pixel * 3 + 3), (pixels - 1 - pixel) * 3);
  }
  return { width, height, data: mirrored };
}

describe('the two kinds of weights', () => {
  it('differ by at most two levels', () => {
    fc.assert(
      fc.property(image, side, side, (source, width, height) => {
        const torch = resize(source, width, height, 'torch').data;
        const pillow = resize(source, width, height, 'pillow').data;
        expect(
          Math.max(...torch.map((value, at) => Math.abs(value - (pillow[at] ?? 0)))),
        ).toBeLessThanOrEqual(2);
      }),
    );
  });
});
