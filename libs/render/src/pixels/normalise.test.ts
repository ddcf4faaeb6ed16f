import { describe, expect, it } from '@jest/globals';

import { writeBfloat16, type Normalisation } from './normalise.ts';

const half: Normalisation = { mean: [0.5, 0.5, 0.5], std: [0.5, 0.5, 0.5] };
const clip: Normalisation = {
  mean: [0.48145466, 0.4578275, 0.40821073],
  std: [0.26862954, 0.26130258, 0.27577711],
};

function values(patches: number[], normalisation: Normalisation): number[] {
  const target = new Uint8Array(patches.length * 2);
  writeBfloat16(Uint8Array.from(patches), patches.length, normalisation, target);
  const view = new DataView(target.buffer);
  return patches.map((_, at) => {
    const float = new DataView(new ArrayBuffer(4));
    float.setUint16(0, view.getUint16(at * 2, true));
    return float.getFloat32(0);
  });
}

describe('writeBfloat16', () => {
  it('maps the ends of the range to -1 and 1', () => {
    expect(values([0, 255, 0, 255, 0, 255], half)).toEqual([-1, 1, -1, 1, -1, 1]);
  });

  it('rounds to eight significant bits and uses the channel of each third', () => {
    for (const normalisation of [half, clip]) {
      for (let level = 0; level < 256; level++) {
        values([level, level, level], normalisation).forEach((value, channel) => {
          const { mean, std } = normalisation;
          const exact = (level / 255 - (mean[channel] ?? 0)) / (std[channel] ?? 1);
          expect(Math.abs(value - exact)).toBeLessThanOrEqual(Math.abs(exact) * 2 ** -8 + 1e-6);
        });
      }
    }
  });
});
