import { describe, expect, it } from '@jest/globals';
import { median } from './median.ts';

describe('median', () => {
  it.each<[figures: number[], expected: number]>([
    [[], NaN],
    [[5], 5],
    [[10, 9, 2], 9],
    [[4, 1, 3, 2], 2.5],
    [[1, 1, 100, 1], 1],
  ])('of %j is %d', (figures, expected) => {
    expect(median(figures)).toBe(expected);
  });
});
