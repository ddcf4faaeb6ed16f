import { type RequestRef } from './names.ts';
import { type Outcome } from './outcome.ts';

/** Never existed, another tenant's, expired or deleted: one answer for all (404). */
export interface Unknown {
  readonly kind: 'unknown';
}

/** Queued, waiting for a retry, or running (202). */
export interface Pending extends RequestRef {
  readonly kind: 'pending';
  readonly state: 'queued' | 'active';
  readonly remainingMs: number;
}

/** The outcome is stored. It stays until a delivery is confirmed and the grace is over. */
export interface Ready extends RequestRef {
  readonly kind: 'ready';
  readonly outcome: Outcome;
}

/** What stands under an id. A request past its deadline is resolved by the reader and comes as `ready`. */
export type FetchResult = Unknown | Pending | Ready;

/** How long a held answer may take. */
export interface WaitOptions {
  /** This waiter's own deadline; the request's own may come before it. */
  readonly timeoutMs: number;
  /** `wait_cap_seconds`; absent = none. */
  readonly capMs?: number;
  /** Aborted when the client is gone. */
  readonly signal: AbortSignal;
  /** True for a name that `submit` returned under mode `wait`, which counted the waiter. */
  readonly isCounted: boolean;
}

/** A result for a waiter. Exactly one call of `settle` must follow. */
export interface WaitReady extends Ready {
  /**
   * Says whether the client got all of it. When it did, the result is deleted, or kept for the grace if others wait;
   * when not, it stays. Rejects with BrokerUnavailableError.
   */
  settle(isDelivered: boolean): Promise<void>;
}

/**
 * How a held wait ended. `pending`: the cap came first (202). `timed-out`: the waiter's own deadline came first and one
 * last look found no result (504). `left`: the signal; the request is cancelled if it was made by a `wait` and nobody
 * else waits. `unknown`: deleted meanwhile (404). `closing`: this process ends (202).
 */
export type WaitEnd =
  WaitReady | Unknown | { readonly kind: 'pending' | 'timed-out' | 'left' | 'closing' };

/**
 * What a cancellation met. `queued` and `active`: it will get no result. `deleted`: it had one, which is gone. `kept`:
 * it goes on, or has one which stays (a waiter left; `deleteActive: detach`). `none`: nothing was there; clients are told the same.
 */
export type CancelResult = 'queued' | 'active' | 'deleted' | 'kept' | 'none';
