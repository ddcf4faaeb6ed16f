import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';

import { imageGrid, smartResize, tokenCount, type ImageGeometry } from './geometry.ts';

const base = { mergeSize: 2, doResize: true };
const qwen3: ImageGeometry = { ...base, patchSize: 16, minPixels: 65_536, maxPixels: 16_777_216 };
const qwen25: ImageGeometry = { ...base, patchSize: 14, minPixels: 3136, maxPixels: 12_845_056 };
const classDefault: ImageGeometry = { ...qwen25, maxPixels: 1_003_520 };
const patch16: ImageGeometry = { ...qwen3, maxPixels: 1_310_720 };
const patch14: ImageGeometry = { ...qwen25, maxPixels: 1_806_336 };

describe('placeholder tokens', () => {
  // render.md 5.3; columns as in its table.
  it.each([
    [200, 300, [70, 77, 77, 70, 77]],
    [224, 224, [64, 64, 64, 64, 64]],
    [640, 480, [300, 391, 391, 300, 391]],
    [1000, 1000, [961, 1296, 1225, 961, 1296]],
    [1024, 768, [768, 999, 999, 768, 999]],
    [1280, 720, [880, 1196, 1196, 880, 1196]],
    [1920, 1080, [2040, 2691, 1222, 1222, 2304]],
    [3840, 2160, [8160, 10549, 1222, 1222, 2304]],
    [1, 1, [64, 4, 4, 64, 4]],
    [10, 2000, [114, 29, 29, 114, 29]],
    [4000, 20, [125, 143, 143, 125, 143]],
  ])('of an image of %i x %i', (width, height, expected) => {
    const profiles = [qwen3, qwen25, classDefault, patch16, patch14];
    const tokens = profiles.map((geometry) =>
      tokenCount(imageGrid(width, height, geometry), geometry.mergeSize),
    );
    expect(tokens).toEqual(expected);
  });
});

describe('smartResize', () => {
  it('rounds halves to the even multiple', () => {
    expect(smartResize(80, 48, 32, 1, 1e9)).toEqual([64, 64]);
  });

  it('keeps to multiples and bounds', () => {
    const side = fc.integer({ min: 28, max: 4000 });
    fc.assert(
      fc.property(side, side, (height, width) => {
        fc.pre(Math.max(height, width) / Math.min(height, width) <= 200);
        const [h, w] = smartResize(height, width, 32, 65_536, 1_310_720);
        expect([h % 32, w % 32]).toEqual([0, 0]);
        expect(h * w).toBeGreaterThanOrEqual(65_536);
        // The shorter side never falls below one cell, which may lift a very long image over the bound.
        if (Math.min(h, w) > 32) expect(h * w).toBeLessThanOrEqual(1_310_720);
      }),
    );
  });

  it('refuses sides of more than 200 to 1', () => {
    expect(() => smartResize(6, 1206, 32, 1, 1e9)).toThrow(/aspect ratio/);
    expect(smartResize(1200, 6, 32, 65_536, 1e9)).toHaveLength(2);
  });

  it('refuses odd sizes when resizing is off', () => {
    const fixed = { ...qwen3, doResize: false };
    expect(imageGrid(64, 32, fixed)).toEqual([1, 2, 4]);
    expect(() => imageGrid(28, 28, fixed)).toThrow(/multiples of 32/);
  });
});
