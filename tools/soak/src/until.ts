import { setTimeout as sleep } from 'node:timers/promises';

const pollMs = 10;

/** Looks until there is something to see. @throws Error naming `what` after `limitMs`. */
export async function until<T>(
  what: string,
  look: () => T | undefined | Promise<T | undefined>,
  limitMs = 15_000,
): Promise<T> {
  const end = performance.now() + limitMs;
  for (;;) {
    const seen = await look();
    if (seen !== undefined) return seen;
    if (performance.now() > end) throw new Error(`not seen within ${limitMs} ms: ${what}`);
    await sleep(pollMs);
  }
}
