const millisecondsPerUnit: Readonly<Record<string, number>> = {
  ns: 1e-6,
  us: 1e-3,
  µs: 1e-3,
  μs: 1e-3,
  ms: 1,
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
};

const wholeDuration = /^\+?(?:(?:\d+\.?\d*|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+$/;
const durationPart = /(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)/g;

/** Go keeps durations as 64-bit nanoseconds. */
const longestMs = 2 ** 63 / 1e6;

/**
 * Reads Go's duration syntax (`1h30m`, `1.5s`, `300ms`; `0` needs no unit) into whole
 * milliseconds, rounded up so that only zero becomes zero. Undefined for anything else: negative
 * durations and bare numbers included.
 */
export function parseDuration(text: string): number | undefined {
  if (text === '0' || text === '+0') return 0;
  if (!wholeDuration.test(text)) return undefined;
  let milliseconds = 0;
  for (const [, amount, unit] of text.matchAll(durationPart)) {
    milliseconds += Number(amount) * (millisecondsPerUnit[unit ?? ''] ?? Number.NaN);
  }
  return milliseconds < longestMs ? Math.ceil(milliseconds) : undefined;
}
