import { setTimeout as pause } from 'node:timers/promises';
import { MediaError } from './media-error.ts';
import { toMediaError } from './transport-error.ts';

/** What bounds the attempts of one download. */
export interface RetryPlan {
  readonly maxRetries: number;
  /** Pause before another attempt when the origin names none. */
  readonly pauseMs: number;
  /** When all attempts together have to be done, by `performance.now()`. */
  readonly deadline: number;
  readonly signal: AbortSignal;
}

/**
 * Runs an attempt again when it failed for a reason of the origin that may pass, after the time that the
 * origin asks for (media-fetcher.md 4). A wait that does not fit before the deadline is not begun: the
 * failure is reported at once. Rejects with what the last attempt rejected with.
 */
export async function withRetries<T>(plan: RetryPlan, attempt: () => Promise<T>): Promise<T> {
  for (let left = plan.maxRetries; ; left -= 1) {
    try {
      return await attempt();
    } catch (error) {
      // An overload of our own is for the client to try again, and an ended signal ends everything.
      const mayPass = error instanceof MediaError && error.kind === 'origin' && error.retryable;
      if (!mayPass || left <= 0 || plan.signal.aborted) throw error;
      const waitMs = error.retryAfterMs ?? plan.pauseMs;
      if (performance.now() + waitMs >= plan.deadline) throw error;
      await wait(waitMs, plan.signal);
    }
  }
}

async function wait(waitMs: number, signal: AbortSignal): Promise<void> {
  try {
    await pause(waitMs, undefined, { signal });
  } catch {
    throw toMediaError(signal.reason, 'headers', 'media');
  }
}

/** Milliseconds that a `Retry-After` header asks for, as seconds or as a date; undefined when it says nothing. */
export function retryAfterMs(header: string | undefined): number | undefined {
  if (header === undefined) return undefined;
  const text = header.trim();
  if (/^\d{1,9}$/.test(text)) return Number(text) * 1000;
  // Only the form with a weekday: `Date.parse` would take much else for a date.
  const date = /^[A-Z][a-z]{2}, /.test(text) ? Date.parse(text) : NaN;
  return Number.isNaN(date) ? undefined : Math.max(0, date - Date.now());
}
