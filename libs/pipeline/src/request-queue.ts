import { type OutcomeError } from './errors.ts';

/** Names one queued request. Ids are scoped by tenant: another tenant's id is an unknown id. */
export interface QueuedName {
  readonly tenant: string;
  readonly id: string;
}

/** One run of an id; an id that runs anew has another generation. */
export interface QueuedRef extends QueuedName {
  readonly generation: string;
}

/** A request for the queue. Bytes and headers are stored as they are. */
export interface QueuedRequest extends QueuedName {
  /** The client's `Idempotency-Key`; it finds a request again whatever `id` says. */
  readonly idempotencyKey?: string;
  readonly mode: 'enqueue' | 'wait';
  readonly lane: string;
  readonly tier: 'interactive' | 'async' | 'batch';
  readonly model: string;
  /** The path that the client called and that the dispatch calls again. */
  readonly path: string;
  readonly contentType: string;
  readonly body: Uint8Array;
  /** Headers that the dispatch carries; names and values in turn. */
  readonly forwardedHeaders: readonly string[];
  readonly traceparent?: string;
  /** From admission to a stored result, after all clamps. */
  readonly timeoutMs: number;
}

/** Which limit of admission was reached. */
export type QueueRefusal =
  'lane-backlog' | 'tenant-backlog' | 'held-waits' | 'body-bytes' | 'redis-memory';

/** What becomes of a request for the queue. In all but the last two cases it has a result or will have one. */
export type Submitted =
  | (QueuedRef & { readonly kind: 'new' | 'live' | 'revived' | 'ready' })
  | { readonly kind: 'id-conflict' | 'key-conflict'; readonly id: string }
  | {
      readonly kind: 'refused';
      readonly id: string;
      readonly reason: QueueRefusal;
      readonly retryAfterSeconds: number;
    };

/** How a queued request ends without an answer of a worker. */
export type OutcomeCode = OutcomeError['code'];

/** How a queued request ended: with a worker's answer as it came, or without one. */
export type QueuedOutcome =
  | {
      readonly kind: 'response';
      readonly status: number;
      readonly contentType?: string;
      readonly body: Uint8Array;
    }
  | { readonly kind: 'error'; readonly code: OutcomeCode; readonly message: string };

/** What stands under an id. `unknown`: never existed, another tenant's, expired or deleted. */
export type Found =
  | { readonly kind: 'unknown' | 'pending' }
  | (QueuedRef & { readonly kind: 'ready'; readonly outcome: QueuedOutcome });

/**
 * How a held wait ended. `pending`: the cap came first. `timed-out`: the waiter's own deadline came first. `left`: the
 * client is gone. `closing`: this process ends. After `ready`, `settle` says whether the client got all of it.
 */
export type WaitEnd =
  | { readonly kind: 'unknown' | 'pending' | 'timed-out' | 'left' | 'closing' }
  | {
      readonly kind: 'ready';
      readonly outcome: QueuedOutcome;
      settle(isDelivered: boolean): Promise<void>;
    };

/** A place in a tenant's quota, held until released. */
export interface QuotaPlace {
  /** `overflow`: over the limit, nothing is held. */
  readonly classification: 'reserved' | 'overflow';
  /** False when the quota could not be asked: it never keeps anybody out. */
  readonly isEnforced: boolean;
  /** Never rejects. */
  release(): Promise<void>;
}

/**
 * Where requests wait for their turn, and their results for whoever fetches them. Whatever the store behind it fails
 * with is a QueueUnavailableError. An app hands in the one built on `@llm-d/broker`.
 */
export interface RequestQueue {
  /** Stores and queues a request, or finds the one that it repeats. With mode `wait` a waiter is counted. */
  submit(request: QueuedRequest): Promise<Submitted>;
  fetch(name: QueuedName): Promise<Found>;
  /** To be called when a client got all of a fetched result. */
  confirmFetch(ref: QueuedRef): Promise<void>;
  /** Holds until there is an outcome, a limit is reached or the signal aborts. */
  wait(
    ref: QueuedRef,
    options: { readonly timeoutMs: number; readonly capMs?: number; readonly signal: AbortSignal },
  ): Promise<WaitEnd>;
  /** Ends a request, or drops its result; resolves whether there was one or not. */
  cancel(name: QueuedName): Promise<void>;
  /** Takes a place in the tenant's quota. Never rejects. */
  acquireQuota(tenant: string): Promise<QuotaPlace>;
}

/** The store behind a queue did not do what was asked. A repetition by the same id is safe. */
export class QueueUnavailableError extends Error {
  override readonly name = 'QueueUnavailableError';
  readonly retryAfterSeconds: number;
  /** Of a request that may have been taken all the same. */
  readonly id: string | undefined;

  constructor(
    details: ErrorOptions & { retryAfterSeconds?: number; id?: string | undefined } = {},
  ) {
    super('the queue is not available', details);
    this.retryAfterSeconds = details.retryAfterSeconds ?? 1;
    this.id = details.id;
  }
}
