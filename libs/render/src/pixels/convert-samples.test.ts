import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';

import { clippedGreyToRgb, cmykToRgb, pasteRgba } from './convert-samples.ts';

const byte = fc.nat(255);

describe('samples', () => {
  it('of transparent pixels are mixed with the background and rounded', () => {
    fc.assert(
      fc.property(byte, byte, byte, (value, alpha, behind) => {
        const [red] = pasteRgba(Uint8Array.of(value, 0, 0, alpha), [behind, 0, 0]);
        const exact = (value * alpha + behind * (255 - alpha)) / 255;
        expect(Math.abs((red ?? NaN) - exact)).toBeLessThanOrEqual(0.5);
      }),
    );
  });

  it('of ink become light', () => {
    const cmyk = [
      [0, 0, 0, 0],
      [255, 0, 0, 0],
      [0, 0, 0, 255],
      [255, 255, 255, 255],
      [100, 50, 0, 51],
    ];
    expect([...cmykToRgb(Uint8Array.from(cmyk.flat()))]).toEqual(
      [
        [255, 255, 255],
        [0, 255, 255],
        [0, 0, 0],
        [0, 0, 0],
        [124, 164, 204],
      ].flat(),
    );
  });

  it('of 16 bits of grey are clipped', () => {
    expect([...clippedGreyToRgb(Uint16Array.of(7, 255, 256, 65_535))]).toEqual(
      [7, 255, 255, 255].flatMap((grey) => [grey, grey, grey]),
    );
  });
});
