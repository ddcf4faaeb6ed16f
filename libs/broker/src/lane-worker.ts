import { type Ticket } from './names.ts';

/**
 * What becomes of a ticket when its handler returns. `done`: it leaves the queue. `delay`: it comes back after the
 * pause, at its old place in the order. `return`: it goes to the front of its place for another worker (shutdown).
 * The last two follow a `park`.
 */
export type TicketEnd =
  { readonly kind: 'done' | 'return' } | { readonly kind: 'delay'; readonly delayMs: number };

/**
 * Handles one ticket. The signal aborts when the ticket is cancelled by `LaneWorker.abort` or its lock is lost. A throw
 * is an unexpected failure: the ticket is tried again, five times in all, then the request ends as INFERENCE_ERROR.
 */
export type TicketHandler = (ticket: Ticket, signal: AbortSignal) => Promise<TicketEnd>;

/** How one process takes tickets of one lane. */
export interface LaneWorkerOptions {
  readonly lane: string;
  readonly handle: TicketHandler;
  /** Tickets at once in this process; 64 when absent. */
  readonly concurrency?: number;
  /** Told of failures of the connection and of BullMQ; rate-limited to one of a kind per second. Must not throw. */
  readonly onError?: (error: Error) => void;
  /**
   * A ticket of a process that died is taken again after at most lock + 2 x interval: 15000 + 2 x 5000 ms when absent.
   * Shorter ones are for tests.
   */
  readonly lockMs?: number;
  readonly stalledIntervalMs?: number;
}

/** Takes tickets of one lane. It pauses itself while Redis refuses writes (full, read-only) and goes on after. */
export interface LaneWorker {
  readonly lane: string;
  /** Tickets that are being handled. */
  readonly running: number;
  readonly isPaused: boolean;
  /** Stops taking tickets at once; those that run go on. */
  pause(): void;
  resume(): void;
  /** Takes effect at once, also upwards (BullMQ alone waits for a running job to end). */
  setConcurrency(concurrency: number): void;
  /** Aborts the handler's signal of a ticket that runs here; false when none does. The reason is an Error. */
  abort(ticket: Omit<Ticket, 'lane'>, reason: Error): boolean;
  /** Resolves when nothing runs any more, or rejects with the signal's reason. */
  untilIdle(signal: AbortSignal): Promise<void>;
  /** Waits at most 3 s for BullMQ, then cuts; never rejects. */
  close(): Promise<void>;
}
