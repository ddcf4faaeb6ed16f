import { type RequestRef } from './names.ts';

/** `wait` holds the client's connection; it decides what a lost connection means (1.9). */
export type QueuedMode = 'enqueue' | 'wait';

/** Which share of the service a request may have; unknown ones count as `batch` (2.3). */
export type Tier = 'interactive' | 'async' | 'batch';

/** A request to be queued. Bytes and headers are stored as they are. */
export interface Submission {
  readonly tenant: string;
  /** Only when the client sent a valid one; otherwise the request gets a random id. */
  readonly id?: string;
  /** The client's `Idempotency-Key`, any text; it finds the request again whatever `id` says. */
  readonly idempotencyKey?: string;
  readonly mode: QueuedMode;
  /** The name of a configured lane. */
  readonly lane: string;
  readonly tier: Tier;
  readonly model: string;
  /** The path that the client called and that the dispatch calls again. */
  readonly path: string;
  readonly contentType: string;
  readonly body: Uint8Array;
  /** Names and values in turn: headers that the dispatch carries. */
  readonly forwardedHeaders: readonly string[];
  readonly traceparent?: string;
  /** From admission to a stored result, after all clamps. */
  readonly timeoutMs: number;
}

/** A request that is in the queue, running, or already has a result. */
export interface Accepted extends RequestRef {
  /**
   * `new`: a job was made. `live`: the same request was queued or running. `revived`: it was marked as cancelled
   * and is no longer. `ready`: its result is stored. With mode `wait` a waiter is counted in all four.
   */
  readonly kind: 'new' | 'live' | 'revived' | 'ready';
  readonly lane: string;
  /** Until the request's deadline, by the clock of Redis; negative when passed. */
  readonly remainingMs: number;
}

/** Another request stands under the name. Nothing was stored. */
export interface Conflict {
  /** `id-conflict` is a 409 (same id, other body, path or model), `key-conflict` a 422 (same `Idempotency-Key`). */
  readonly kind: 'id-conflict' | 'key-conflict';
  readonly id: string;
}

/** Which limit of admission was reached (4.9). */
export type RefusalReason =
  'lane-backlog' | 'tenant-backlog' | 'held-waits' | 'body-bytes' | 'redis-memory';

/** Not taken, nothing was stored. `redis-memory` is a 503 `ENQUEUE_FAILED`, the others are 429s. */
export interface Refused {
  readonly kind: 'refused';
  readonly reason: RefusalReason;
  readonly id: string;
  /** 1 to 60. */
  readonly retryAfterSeconds: number;
}

/** What becomes of a submission. A failure of Redis is thrown (BrokerUnavailableError). */
export type SubmitResult = Accepted | Conflict | Refused;
