import { type RequestQueue } from './request-queue.ts';

/** What a queue is opened with; numbers that are absent have the queue's own defaults. */
export interface QueueOptions {
  /** `redis://` or `rediss://` with credentials where needed, or several nodes of a cluster with commas between them. */
  readonly url: string;
  readonly lanes: readonly string[];
  /** By deadline, or so that tenants take turns. */
  readonly order: 'edf' | 'fair-edf';
  /** Places of a tenant's quota; undefined = no limit. */
  readonly quotaOf: (tenant: string) => number | undefined;
  readonly resultMs: number;
  /** Of a result that was fetched; 0 = deleted on delivery. */
  readonly fetchGraceMs: number;
  readonly idConflict: 'reject' | 'attach';
  readonly rerunOnRetry: readonly string[];
  readonly ackDurability: 'none' | 'replica' | 'aof';
  readonly appendOnlyFile: 'require' | 'warn';
  readonly cancelActiveOnDisconnect: boolean;
  readonly deleteActive: 'abort' | 'detach';
  /** Quota as upstream counts it; undefined = leases. */
  readonly compatCounters?:
    { readonly attribute: string; readonly windowSeconds: number } | undefined;
  readonly maxLaneBacklog?: number | undefined;
  readonly maxTenantBacklog?: number | undefined;
  readonly maxHeldWaits?: number | undefined;
}

/** A request by id as a client makes it. */
export interface StoredRequestCall {
  readonly id: string;
  /** Names and values in turn. */
  readonly rawHeaders: readonly string[];
}

/** An answer that is complete. */
export interface WholeAnswer {
  readonly status: number;
  /** Names and values in turn. */
  readonly headers: readonly string[];
  readonly body?: Uint8Array;
  /** To be called when the client got all of it. */
  readonly onDelivered?: () => Promise<void>;
}

/** What stands behind `/v1/requests/<id>`. Failures are CoordinatorErrors. */
export interface StoredRequests {
  /** What a request asks for, as far as one can tell before it is checked; undefined without a mode. Never throws. */
  modeOf(rawHeaders: readonly string[]): string | undefined;
  fetch(call: StoredRequestCall): Promise<WholeAnswer>;
  cancel(call: StoredRequestCall): Promise<WholeAnswer>;
  /** What `GET /v1/models` answers; undefined where that path is not the step's. */
  readonly models: WholeAnswer | undefined;
}

/** What the step that queues requests needs of the program around it. */
export interface AsyncHost {
  /** The host closes it. Throws a plain Error for options that cannot work. */
  openQueue(options: QueueOptions): RequestQueue;
  serveRequests(requests: StoredRequests): void;
}
