import { type ResponseOutcome } from '@llm-d/broker';
import { retryAfterMs } from './retry-after.ts';

/** An HTTP answer of the dispatch target, whole: the bytes and the type that came. */
export interface HttpAnswer {
  readonly status: number;
  readonly contentType: string | undefined;
  readonly body: Buffer;
  /** Value of `Retry-After` as it came. */
  readonly retryAfter: string | undefined;
  /** Value of `x-llm-d-request-dropped-reason`. */
  readonly droppedReason: string | undefined;
}

/**
 * Why an attempt ended without an HTTP answer. `connect`: no connection, or it broke before a byte of the answer, so
 * that no generation is known to have begun. `broken`: it broke inside the answer. `too-large`: the answer is over the
 * limit. `deadline` and `attempt-timeout`: our clock ended it. `aborted`: this process gave the call up.
 */
export type Fault =
  | 'connect'
  | 'broken'
  | 'too-large'
  | 'deadline'
  | 'attempt-timeout'
  | 'cancelled'
  | 'shutdown'
  | 'lock-lost';

/** How one dispatch attempt ended. */
export type Attempt = HttpAnswer | { readonly fault: Fault };

/** Whether the target answered. */
export function isAnswer(attempt: Attempt): attempt is HttpAnswer {
  return 'status' in attempt;
}

/** Whether the deadline of the request ended it. */
export function isOverdue(attempt: Attempt): boolean {
  return !isAnswer(attempt) && attempt.fault === 'deadline';
}

/** The pause that the target asked for, if it did. */
export function askedPauseMs(attempt: Attempt): number | undefined {
  return isAnswer(attempt) ? retryAfterMs(attempt.retryAfter, Date.now()) : undefined;
}

/** An answer as it is stored. */
export function toOutcome({ status, contentType, body }: HttpAnswer): ResponseOutcome {
  return { kind: 'response', status, ...(contentType !== undefined && { contentType }), body };
}
