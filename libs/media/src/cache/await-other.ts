import { setTimeout as sleep } from 'node:timers/promises';
import { toMediaError } from '../transport-error.ts';
import { type CacheQuery } from './cache-query.ts';
import { type SharedTier, type TierAnswer } from './cache-tier.ts';

/** How often the store is asked whether another process is ready: the pause grows from first to last. */
const firstPollMs = 25;
const lastPollMs = 100;

/**
 * Waits while another process holds the lock of a query, and hands out what the store has, until `isDone` finds
 * something or the other has ended. Rejects with MediaError when the signal aborts.
 */
export async function awaitOther(
  shared: SharedTier,
  { key, timeoutMs }: CacheQuery,
  signal: AbortSignal,
  isDone: (answer: TierAnswer) => boolean,
): Promise<void> {
  const endsAt = performance.now() + timeoutMs;
  for (let pauseMs = firstPollMs; ; pauseMs = Math.min(pauseMs * 1.5, lastPollMs)) {
    const withJitter = pauseMs * (0.75 + 0.5 * Math.random());
    try {
      await sleep(withJitter, undefined, { signal });
    } catch {
      throw toMediaError(signal.reason, 'headers', 'media');
    }
    // In this order: who releases the lock has written before.
    const isLocked = await shared.isLocked(key);
    const answer = await shared.read(key);
    if (isDone(answer) || !isLocked || answer.isUnavailable || performance.now() >= endsAt) {
      return;
    }
  }
}
