/** Milliseconds to the microsecond: finer than anyone reads. */
export function rounded(milliseconds: number): number {
  return Math.round(milliseconds * 1_000) / 1_000;
}
