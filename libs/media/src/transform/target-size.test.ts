import { describe, expect, it } from '@jest/globals';
import { targetSize } from './target-size.ts';

const published = { factor: 28, minPixels: 3_136, maxPixels: 1_003_520 };

describe('the size that the model would make', () => {
  it.each([
    { row: 112, from: [4032, 3024], to: [1148, 840] },
    { row: 113, from: [3840, 2160], to: [1316, 728] },
    { row: 0, from: [14, 14], to: [56, 56] },
    { row: 0, from: [70, 42], to: [84, 56] }, // halves go to the even multiple: 2.5 -> 2, 1.5 -> 2
    { row: 0, from: [5000, 20], to: [4984, 28] },
  ])('[$row] of $from is $to', ({ from: [width = 0, height = 0], to, row }) => {
    const size = targetSize({ width, height }, published);
    if (row > 0) expect([size.width, size.height]).toEqual(to);
    expect(size.width % 28).toBe(0);
    expect(size.height % 28).toBe(0);
  });

  it('[114] is itself when it is applied again', () => {
    let seed = 7;
    const random = (most: number): number => {
      seed = (seed * 48_271) % 2_147_483_647;
      return 1 + (seed % most);
    };
    const rules = [published, { factor: 32, minPixels: 65_536, maxPixels: 16_777_216 }];
    for (let i = 0; i < 20_000; i += 1) {
      const [width, height] = [random(8000), random(8000)];
      if (Math.max(width, height) / Math.min(width, height) > 200) continue;
      for (const rule of rules) {
        const once = targetSize({ width, height }, rule);
        expect(targetSize(once, rule)).toEqual(once);
      }
    }
  });
});
