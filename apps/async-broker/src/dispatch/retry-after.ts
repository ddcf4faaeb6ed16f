/**
 * Milliseconds that a `Retry-After` value (seconds or an HTTP date) asks to wait, counted from `nowMs`; undefined for
 * a value that is neither, and for a moment that has passed.
 */
export function retryAfterMs(value: string | undefined, nowMs: number): number | undefined {
  const text = value?.trim() ?? '';
  if (/^\d{1,9}$/.test(text)) return Number(text) > 0 ? Number(text) * 1000 : undefined;
  // Without the letters of a date, Date.parse takes any number for a year.
  const atMs = /^[A-Za-z]{3}/.test(text) ? Date.parse(text) : Number.NaN;
  return atMs > nowMs ? atMs - nowMs : undefined;
}
