import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';

import { patchify, valuesPerPatch } from './patchify.ts';

/** render.md 5.5: the image as (1, 2, 3, rows / merge, merge, patch, columns / merge, merge, patch), permuted. */
const PERMUTATION = [0, 3, 6, 4, 7, 2, 1, 5, 8];

describe('patchify', () => {
  it('permutes the pixels as the reshape of upstream does', () => {
    const few = fc.integer({ min: 1, max: 3 });
    fc.assert(fc.property(few, few, few, fc.constantFrom(1, 2, 3, 4, 8), expectPermuted));
  });

  it.each([14, 16, 17])('permutes patches of %i pixels', (patchSize) => {
    expectPermuted(2, 1, 2, patchSize);
  });
});

function expectPermuted(down: number, across: number, mergeSize: number, patchSize: number): void {
  const cell = mergeSize * patchSize;
  const [height, width] = [down * cell, across * cell];
  const data = Uint8Array.from(
    { length: height * width * 3 },
    (_, at) => (at * 31 + (at >> 8)) % 256,
  );
  const target = new Uint8Array(data.length * 2);
  let at = 0;
  patchify({ width, height, data }, { patchSize, mergeSize }, (patch) => {
    target.set(patch, at);
    at += patch.length;
  });
  const shape = [1, 2, 3, down, mergeSize, patchSize, across, mergeSize, patchSize];
  expect(target).toEqual(permuted(shape, data, width));
  expect(target.length).toBe(down * across * mergeSize ** 2 * valuesPerPatch(patchSize));
}

function permuted(shape: readonly number[], data: Uint8Array, width: number): Uint8Array {
  const order = PERMUTATION.map((axis) => shape[axis] ?? 1);
  const total = order.reduce((product, size) => product * size, 1);
  return Uint8Array.from({ length: total }, (_, position) => {
    const index = new Array<number>(shape.length).fill(0);
    let rest = position;
    for (let at = order.length - 1; at >= 0; at--) {
      const size = order[at] ?? 1;
      index[PERMUTATION[at] ?? 0] = rest % size;
      rest = Math.floor(rest / size);
    }
    const coordinate = (outer: number): number => {
      const [block = 0, inBlock = 0, inPatch = 0] = index.slice(outer, outer + 3);
      return (block * (shape[outer + 1] ?? 1) + inBlock) * (shape[outer + 2] ?? 1) + inPatch;
    };
    return data[(coordinate(3) * width + coordinate(6)) * 3 + (index[2] ?? 0)] ?? 0;
  });
}
