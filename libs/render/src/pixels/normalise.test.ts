import { describe, expect, it } from '@jest/globals';

import { type FloatDtype, normalisedPatches, type Normalisation } from './normalise.ts';

const half: Normalisation = { mean: [0.5, 0.5, 0.5], std: [0.5, 0.5, 0.5] };
const clip: Normalisation = {
  mean: [0.48145466, 0.4578275, 0.40821073],
  std: [0.26862954, 0.26130258, 0.27577711],
};

function values(
  patches: number[],
  normalisation: Normalisation,
  dtype: FloatDtype = 'bfloat16',
): number[] {
  const normalised = normalisedPatches(normalisation, dtype, patches.length);
  const target = normalised(Uint8Array.from(patches));
  const view = new DataView(target.buffer);
  return patches.map((_, at) => {
    if (dtype === 'float32') return view.getFloat32(at * 4, true);
    if (dtype === 'float16') return float16(view.getUint16(at * 2, true));
    const float = new DataView(new ArrayBuffer(4));
    float.setUint16(0, view.getUint16(at * 2, true));
    return float.getFloat32(0);
  });
}

function float16(bits: number): number {
  const [exponent, fraction] = [(bits >> 10) & 31, bits & 1023];
  const magnitude = exponent === 0 ? fraction * 2 ** -24 : (1024 + fraction) * 2 ** (exponent - 25);
  return bits >> 15 === 1 ? -magnitude : magnitude;
}

describe('normalisedPatches', () => {
  it('maps the ends of the range to -1 and 1', () => {
    expect(values([0, 255, 0, 255, 0, 255], half)).toEqual([-1, 1, -1, 1, -1, 1]);
  });

  it.each([
    { dtype: 'bfloat16', bits: 8 },
    { dtype: 'float16', bits: 11 },
    { dtype: 'float32', bits: 23 },
  ] as const)(
    'rounds to the bits of $dtype, and uses the channel of each third',
    ({ dtype, bits }) => {
      const levels = Array.from({ length: 256 }, (_, level) => level);
      for (const normalisation of [half, clip]) {
        const { mean, std } = normalisation;
        values([...levels, ...levels, ...levels], normalisation, dtype).forEach((value, at) => {
          const channel = Math.floor(at / 256);
          const exact = ((at % 256) / 255 - (mean[channel] ?? 0)) / (std[channel] ?? 1);
          expect(Math.abs(value - exact)).toBeLessThanOrEqual(Math.abs(exact) * 2 ** -bits + 1e-6);
        });
      }
    },
  );
});
