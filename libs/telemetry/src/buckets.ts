/** Histogram ladders of coordinator.md 8.1: from a cache hit to a generation of an hour. */
export const secondsBuckets = [
  ...[0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20],
  ...[30, 45, 60, 120, 180, 240, 300, 360, 480, 600, 900, 1200, 1800, 2700, 3600],
];

/** Body sizes from 64 bytes to 1 GB. */
export const bytesBuckets = doubling(64, 1_073_741_824);

/** Prompt lengths; between 1 and 8 tokens nobody looks. */
export const tokensBuckets = [1, ...doubling(8, 1_048_576)];

/** Items and legs of one request. */
export const countBuckets = [0, ...doubling(1, 256)];

function doubling(least: number, most: number): number[] {
  const buckets: number[] = [];
  for (let bound = least; bound <= most; bound *= 2) buckets.push(bound);
  return buckets;
}
