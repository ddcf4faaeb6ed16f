import { expect, it } from '@jest/globals';

import { releasePixels } from './rgb-image.ts';

it('gives back memory that holds nothing but the pixels', () => {
  const alone = new Uint8Array(12);
  releasePixels(alone);
  expect(alone.length).toBe(0);
  const shared = new Uint8Array(24);
  releasePixels(shared.subarray(0, 12));
  expect(shared.length).toBe(24);
});
