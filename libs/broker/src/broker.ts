import { type Dispatch } from './dispatch.ts';
import { type LaneWorker, type LaneWorkerOptions } from './lane-worker.ts';
import { type RequestName, type RequestRef } from './names.ts';
import {
  type CancelResult,
  type FetchResult,
  type WaitEnd,
  type WaitOptions,
} from './retrieval.ts';
import { type Submission, type SubmitResult } from './submission.ts';

/** One thing about the server that must change, and the command that changes it. */
export interface ServerProblem {
  readonly text: string;
  /** For a shell, for example `redis-cli CONFIG SET maxmemory-policy noeviction`. */
  readonly command: string;
}

/** What the last look at the server found; it is repeated every 30 s. */
export interface BrokerHealth {
  /** Connected, and no problem. */
  readonly isReady: boolean;
  /** Each stops readiness. */
  readonly problems: readonly ServerProblem[];
  /** To be logged; they stop nothing. */
  readonly warnings: readonly ServerProblem[];
  /** `used_memory / maxmemory`, the highest of all nodes; 0 without a limit. */
  readonly memoryRatio: number;
}

/** How many requests of a lane are where. */
export interface LaneBacklog {
  /** Could start now. */
  readonly waiting: number;
  readonly active: number;
  /** Wait for a retry or a gate. */
  readonly delayed: number;
  /** All without an outcome, by their records. */
  readonly open: number;
}

/** Repairs and expires; it runs on one process at a time (4.15). */
export interface Sweeper {
  readonly isLeader: boolean;
  /** Takes one turn now if this process leads or nobody does. Resolves with the number of repairs. */
  sweep(): Promise<number>;
  /** Ends the turns and gives the lead away. Never rejects. */
  close(): Promise<void>;
}

/**
 * Queued requests in Redis. All calls may be made at once; those that ask Redis reject with BrokerUnavailableError:
 * in a few milliseconds without a connection, in at most 2.1 s when the server is frozen.
 */
export interface Broker extends AsyncDisposable {
  /** Accepts a request, or finds the one that it repeats. Throws BrokerInputError for a name that cannot be one. */
  submit(submission: Submission): Promise<SubmitResult>;
  /** What stands under an id. */
  fetch(name: RequestName): Promise<FetchResult>;
  /** To be called when a client got all of a fetched result: starts its grace anew, or deletes it. */
  confirmFetch(ref: RequestRef): Promise<void>;
  /** Holds until the outcome, a limit, or the client's end. */
  wait(ref: RequestRef, options: WaitOptions): Promise<WaitEnd>;
  /** Ends a request: it is gone at once for clients, and a worker that runs it is told. */
  cancel(name: RequestName): Promise<CancelResult>;
  /** For workers. */
  readonly dispatch: Dispatch;
  /** Starts taking tickets; waits for the connection. Rejects with the signal's reason. */
  openLaneWorker(options: LaneWorkerOptions, signal: AbortSignal): Promise<LaneWorker>;
  startSweeper(): Sweeper;
  /** The configured lanes, then those that still have requests. */
  lanesInUse(): Promise<string[]>;
  backlog(lane: string): Promise<LaneBacklog>;
  readonly heldWaits: number;
  /** Without asking the server: what the last look found. */
  health(): BrokerHealth;
  /** Resolves when the server is connected and without problems, or rejects with the signal's reason. */
  untilReady(signal: AbortSignal): Promise<void>;
  /** Ends held waits with `closing`; new ones end so at once. */
  releaseWaits(): void;
  /** Ends the waits and all connections. Workers and sweepers are closed by who opened them, before. Never rejects. */
  close(): Promise<void>;
}
