import { type Attempt, isAnswer } from './attempt.ts';
import { retryAfterMs } from './retry-after.ts';

/**
 * What becomes of an attempt (async-broker.md 3.4). `store` keeps the HTTP answer as the result, `retry` tries again
 * while time is left, `fail` stores an error code, `requeue` puts the request back as if it had not run, `drop` leaves
 * the outcome to whoever ended the call.
 */
export type Decision =
  | { readonly kind: 'store' }
  | { readonly kind: 'retry'; readonly category: 'rate-limit' | 'server-error' | 'unreachable' }
  | {
      readonly kind: 'fail';
      readonly code: 'DEADLINE_EXCEEDED' | 'INFERENCE_ERROR';
      readonly message: string;
    }
  | { readonly kind: 'requeue' }
  | { readonly kind: 'drop' };

/** Switches of the policy. */
export interface RetryRules {
  /** Upstream ends a request whose target refuses the connection with a 502. */
  readonly retriesConnectErrors: boolean;
}

/** Sorts the end of an attempt. */
export function decide(attempt: Attempt, rules: RetryRules): Decision {
  if (isAnswer(attempt)) {
    const { status } = attempt;
    if (status === 429) return { kind: 'retry', category: 'rate-limit' };
    // The target says itself that nothing was generated: it did not get the request in time, or not yet.
    if (status === 408 || status === 425) return { kind: 'retry', category: 'rate-limit' };
    return status >= 500 ? { kind: 'retry', category: 'server-error' } : { kind: 'store' };
  }
  switch (attempt.fault) {
    case 'connect':
      return rules.retriesConnectErrors
        ? { kind: 'retry', category: 'unreachable' }
        : {
            kind: 'fail',
            code: 'INFERENCE_ERROR',
            message: 'the inference service is not reachable',
          };
    case 'broken':
      return { kind: 'retry', category: 'server-error' };
    case 'too-large':
      return {
        kind: 'fail',
        code: 'INFERENCE_ERROR',
        message: 'the answer is larger than allowed',
      };
    case 'deadline':
      return {
        kind: 'fail',
        code: 'DEADLINE_EXCEEDED',
        message: 'the deadline of the request has passed',
      };
    case 'attempt-timeout':
      return {
        kind: 'fail',
        code: 'DEADLINE_EXCEEDED',
        message: 'the inference service took too long',
      };
    case 'shutdown':
      return { kind: 'requeue' };
    case 'cancelled':
    case 'lock-lost':
      return { kind: 'drop' };
  }
}

/** Everything that the pause before a retry depends on. */
export interface RetryMoment {
  /** Retries so far, this one included: 1 = the first. */
  readonly retry: number;
  /** Until the deadline. */
  readonly remainingMs: number;
  readonly retryAfter: string | undefined;
  readonly nowMs: number;
  /** A number in [0, 1). */
  readonly random: number;
}

const baseMs = 2_000;
const longestMs = 60_000;
/** Near the deadline halves of what is left would become a burst. */
const shortestMs = 250;

/**
 * Milliseconds before the next attempt. Exponential with equal jitter; a longer `Retry-After` wins, but never takes
 * more than half of the time that is left (and up to a quarter on top of it), so that it cannot end a request by itself.
 */
export function retryDelayMs({
  retry,
  remainingMs,
  retryAfter,
  nowMs,
  random,
}: RetryMoment): number {
  const leftMs = Math.max(remainingMs, 0);
  const fullMs = Math.min(baseMs * 2 ** Math.min(retry, 16), longestMs, leftMs);
  const backoffMs = fullMs / 2 + (fullMs / 2) * random;
  const askedMs = retryAfterMs(retryAfter, nowMs) ?? 0;
  if (askedMs <= backoffMs) return Math.max(Math.round(backoffMs), shortestMs);
  const clampedMs = Math.min(askedMs, leftMs / 2);
  return Math.max(Math.round(clampedMs * (1 + random / 4)), shortestMs);
}
