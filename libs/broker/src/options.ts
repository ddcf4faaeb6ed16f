import { type BrokerObserver } from './observer.ts';

/** Where the records and queues are. */
export type BrokerRedis =
  | { readonly url: string }
  /** Some nodes of a Redis cluster. */
  | { readonly clusterUrls: readonly string[] };

/** How a lane orders its requests: by deadline, or so that tenants take turns (4.5). */
export type LaneOrder = 'edf' | 'fair-edf';

/** One queue. Lanes come and go with the configuration; one that is left with requests is still served. */
export interface LaneConfig {
  /** 1 to 48 characters of `a–z 0–9 -`. */
  readonly name: string;
  /** `edf` when absent. */
  readonly order?: LaneOrder;
  /** Open requests; 100000 when absent. */
  readonly maxBacklog?: number;
}

/** What one tenant may have. */
export interface TenantConfig {
  /** Open requests over all lanes; 10000 when absent. */
  readonly maxBacklog?: number;
  /** Share in a `fair-edf` lane against others; 1 when absent. */
  readonly weight?: number;
  /** Dispatches at once that count as reserved; none, or 0 or less = no limit. */
  readonly concurrency?: number;
}

/** Limits of one process and of the server. */
export interface AdmissionLimits {
  /** Held waits of this process; 5000 when absent. */
  readonly maxHeldWaits?: number;
  /** Bodies on their way to Redis in this process; 256 MiB when absent. */
  readonly maxBodyBytesInFlight?: number;
  /** Share of `maxmemory` at which admission stops; 0.8 when absent. */
  readonly maxMemoryRatio?: number;
}

/** How long things are kept. */
export interface Lifetimes {
  /** Result, from stored to first fetched; 3600000 (1 h) when absent, at most 7 d. */
  readonly resultMs?: number;
  /** Result, from a confirmed fetch on; 60000 when absent, 0 = deleted on delivery. */
  readonly fetchGraceMs?: number;
}

/** What is waited for before a submission counts as accepted: nothing, one replica, or the append-only file. */
export type AckDurability = 'none' | 'replica' | 'aof';

/** Upstream's counters of requests under way: `quota:<attribute>:<tenant>`, which expire. */
export interface CompatCounters {
  readonly attribute: string;
  readonly windowSeconds: number;
}

/** What `openBroker` needs. */
export interface BrokerOptions {
  readonly redis: BrokerRedis;
  readonly lanes: readonly LaneConfig[];
  /** Asked at every admission and dispatch; none = the defaults for all. */
  readonly tenant?: (tenant: string) => TenantConfig | undefined;
  readonly limits?: AdmissionLimits;
  readonly lifetimes?: Lifetimes;
  /** Same id, other body: refuse (default), or answer with the first body's request as upstream does. */
  readonly idConflict?: 'reject' | 'attach';
  /** Outcome codes and statuses (`DEADLINE_EXCEEDED`, `503`) that run again when their id is submitted again. */
  readonly rerunOnRetry?: readonly string[];
  /** Whether a request that runs is cancelled when its last waiter leaves; true when absent. */
  readonly cancelActiveOnDisconnect?: boolean;
  /** What a DELETE does to a request that runs: end it (default), or as upstream let it run and keep its result. */
  readonly deleteActive?: 'abort' | 'detach';
  readonly ackDurability?: AckDurability;
  /** Whether a server without append-only file is refused (default) or only reported. */
  readonly appendOnlyFile?: 'require' | 'warn';
  /** Quota as upstream counts it, for a Redis that it shares; leases when absent. */
  readonly compatCounters?: CompatCounters | undefined;
  readonly observer?: BrokerObserver;
}
