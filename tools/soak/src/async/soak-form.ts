/** How long and how hard a soak is; times in milliseconds. */
export interface SoakForm {
  readonly loadMs: number;
  readonly requestsPerSecond: number;
  /** Between two kills of a worker, and of the API. */
  readonly workerKillMs: number;
  readonly apiKillMs: number;
  /** When Redis stands still, for how long, when it is killed, and when it is full, from the start of the load. */
  readonly freeze: { readonly atMs: number; readonly forMs: number };
  readonly restartAtMs: number;
  readonly squeeze: { readonly atMs: number; readonly forMs: number };
  /** Lock of tickets and how often stalled ones are looked for. */
  readonly lock: { readonly lock: string; readonly stalled_interval: string };
  /** From admission to the deadline. */
  readonly timeoutSeconds: number;
  /** p99 of wake-ups while nothing is broken; a test run has a busy machine. */
  readonly maxWakeUpMs: number;
  /** Whether the audit waits until all lifetimes are over (I6, I7); else it checks that everything has one. */
  readonly isSettled: boolean;
}

/** `ci` fits into a test run, `short` is the default, `full` is the minimum of async-broker.md. */
export const soakForms = {
  ci: {
    ...{ loadMs: 10_000, requestsPerSecond: 30, workerKillMs: 2_500, apiKillMs: 6_000 },
    freeze: { atMs: 2_000, forMs: 1_500 },
    restartAtMs: 5_000,
    squeeze: { atMs: 7_500, forMs: 1_000 },
    lock: { lock: '1s', stalled_interval: '400ms' },
    ...{ timeoutSeconds: 20, maxWakeUpMs: 1_000, isSettled: false },
  },
  short: {
    ...{ loadMs: 60_000, requestsPerSecond: 60, workerKillMs: 2_000, apiKillMs: 15_000 },
    freeze: { atMs: 12_000, forMs: 8_000 },
    restartAtMs: 30_000,
    squeeze: { atMs: 42_000, forMs: 4_000 },
    lock: { lock: '3s', stalled_interval: '1s' },
    ...{ timeoutSeconds: 40, maxWakeUpMs: 100, isSettled: true },
  },
  full: {
    ...{ loadMs: 300_000, requestsPerSecond: 200, workerKillMs: 2_000, apiKillMs: 15_000 },
    freeze: { atMs: 60_000, forMs: 8_000 },
    restartAtMs: 140_000,
    squeeze: { atMs: 220_000, forMs: 8_000 },
    lock: { lock: '15s', stalled_interval: '5s' },
    ...{ timeoutSeconds: 90, maxWakeUpMs: 100, isSettled: true },
  },
} as const satisfies Record<string, SoakForm>;
export type SoakFormName = keyof typeof soakForms;

/** Numbers of requests from here on are those whose order is looked at. */
export const firstOrdered = 1_000_000;
/** Seconds to the deadline of those, in the order in which they are queued: equal ones run as they came. */
export const orderedTimeouts = [60, 50, 55, 50, 60, 55, 50, 55, 60] as const;

/** The queues, and the tenant of each; workers prefer them in this order. */
export const soakLanes = [
  { lane: 'interactive', tenant: 'team-0', tier: 'interactive' },
  { lane: 'request-sortedset', tenant: 'team-1', tier: 'async' },
  { lane: 'batch', tenant: 'team-2', tier: 'batch' },
  { lane: 'ordered', tenant: 'ordered', tier: 'async' },
] as const;

/** How long what is kept is kept in a soak, in seconds; a deleted request leaves its mark for a minute. */
export const lifetimes = { result: 30, fetchGrace: 15 } as const;
