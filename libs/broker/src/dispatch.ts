import { type Outcome, type ResponseOutcome } from './outcome.ts';
import { type RequestRef, type Ticket } from './names.ts';
import { type QueuedMode, type Tier } from './submission.ts';

/** What a worker needs to call the model; the body is read apart, after the gates. */
export interface DispatchRequest extends Ticket {
  readonly tier: Tier;
  readonly model: string;
  readonly path: string;
  readonly contentType: string;
  readonly forwardedHeaders: readonly string[];
  readonly traceparent?: string;
  readonly mode: QueuedMode;
  /** 1 for the first start. A request that waited at a gate counts again. */
  readonly starts: number;
  /** How often it was parked with `isRetry`. */
  readonly retries: number;
  readonly remainingMs: number;
  /** Since admission, by the clock of Redis. */
  readonly ageMs: number;
}

/**
 * Whether a ticket may run. `run`: the caller's token owns the request. `done`: it has an outcome, which may have been
 * written by this very call (cancelled, past its deadline). `gone`: it was deleted or runs as another generation.
 */
export type BeginResult =
  { readonly kind: 'run'; readonly request: DispatchRequest } | { readonly kind: 'done' | 'gone' };

/** `already`: another outcome was first and stays. `gone`: nobody wants it any more. Both discard the outcome. */
export type FinishResult = 'stored' | 'already' | 'gone';

/** `ok`: queued again. `gone`: deleted, or another worker's token owns it. `done`: it has an outcome. */
export type ParkResult = 'ok' | 'gone' | 'done';

/** Why a request goes back to the queue. */
export interface ParkOptions {
  /** Counts in `retries`; false for one that goes back unharmed (gate, shutdown). */
  readonly isRetry: boolean;
  /** The answer of a failed attempt: it becomes the outcome when the deadline comes first. */
  readonly last?: ResponseOutcome;
}

/** Of a request that a worker runs: go on, or abort because it was cancelled, finished elsewhere or taken over. */
export type Standing = 'running' | 'cancelled' | 'done' | 'gone';

/** Why a request is cancelled. */
export type CancelReason = 'delete' | 'disconnect';

/** Called on every process when a request is cancelled; it may be another process that runs it. Must not throw. */
export type CancelListener = (ref: RequestRef, reason: CancelReason) => void;

/** The calls of a worker. Each is one script; all reject with BrokerUnavailableError. */
export interface Dispatch {
  /** Claims a request for a token (one per start, random). A stale worker's claim ends here. */
  begin(ref: RequestRef, token: string): Promise<BeginResult>;
  /** The client's bytes; undefined when they are lost, which is an INFERENCE_ERROR. */
  body(ref: RequestRef): Promise<Buffer | undefined>;
  /**
   * Stores how a request ended, once. Any token may finish: the first outcome stays, also a stalled worker's. May be
   * repeated after a failure until it answers.
   */
  finish(ref: RequestRef, token: string, outcome: Outcome): Promise<FinishResult>;
  /** Gives a request back to the queue. Fenced by the token: a stale worker gets `gone`. */
  park(ref: RequestRef, token: string, options: ParkOptions): Promise<ParkResult>;
  /** Where requests stand that this process runs, in the order asked: the backup of a lost cancel message. */
  standings(runs: readonly { ref: RequestRef; token: string }[]): Promise<Standing[]>;
  /** Returns the function that ends it. */
  onCancel(listener: CancelListener): () => void;
  /** What an operator lets through, 0 to 1; 1 when nothing is set (`SET ab:gate:<lane> 0.5`). */
  gateBudget(lane: string): Promise<number>;
  /** Counts a dispatch against a tenant's concurrency. Fails open: without Redis it is `reserved` and not enforced. */
  acquireQuota(tenant: string): Promise<QuotaLease>;
}

/** A place in a tenant's concurrency; renewed every 10 s until released, and free 30 s after its process died. */
export interface QuotaLease extends AsyncDisposable {
  /** `overflow`: over the limit, nothing is held. Tenants without a limit are always `reserved`. */
  readonly classification: 'reserved' | 'overflow';
  /** False when Redis could not be asked. */
  readonly isEnforced: boolean;
  /** Never rejects; may be called again. */
  release(): Promise<void>;
}
