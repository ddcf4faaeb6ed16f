import { Agent } from 'undici';
import { ApiError } from './api-error.ts';
import { Clock } from './clock.ts';
import { Embeddings } from './embeddings.ts';
import { type JsonObject } from './exact-json.ts';
import { ActiveFaults, type Fault, parseFaults } from './faults.ts';
import { ModelNames } from './inference-input.ts';
import { KvLeases, type SidePeer } from './kv-leases.ts';
import { latencyOf, type Latency } from './latency.ts';
import { type CounterName, Metrics } from './metrics.ts';
import { patched, type Tuning, tuningOf, type WorkerConfig } from './options.ts';
import { PrefixCache } from './prefix-cache.ts';
import { type PromptReader } from './prompt-reader.ts';
import { seededRandom } from './random.ts';
import { RequestLog } from './request-log.ts';
import { Rooms } from './rooms.ts';
import { SharedStorage } from './shared-storage.ts';
import { Slots } from './slots.ts';

/** What a dead engine answers to the request that killed it and to all that follow. */
export const engineDeadMessage =
  'EngineCore encountered an issue. See stack trace (above) for the root cause.';

/** What stays the same for the life of a worker. */
export interface EngineSetup {
  config: WorkerConfig & { podName: string };
  reader: () => Promise<PromptReader>;
  /** The addresses that transfer params name. */
  kvPeer: SidePeer;
  ecPeer: SidePeer;
  /** 0 when the pod has no bootstrap channel. */
  bootstrapPort: number;
  /** Ends the process with this code (fault `oom`); undefined when the worker is embedded. */
  exit: ((code: number) => void) | undefined;
}

/** Everything one pod remembers. */
export class Engine {
  readonly config: EngineSetup['config'];
  readonly reader: () => Promise<PromptReader>;
  #loading: Promise<PromptReader> | undefined;
  readonly kvPeer: SidePeer;
  readonly ecPeer: SidePeer;
  readonly bootstrapPort: number;
  readonly models: ModelNames;
  readonly leases: KvLeases;
  readonly embeddings: Embeddings;
  readonly rooms = new Rooms();
  readonly cache: PrefixCache;
  readonly storage: SharedStorage;
  readonly slots = new Slots(() => this.tuning);
  readonly metrics: Metrics;
  readonly log = new RequestLog();
  readonly clock = new Clock();
  readonly agent = new Agent({ connections: null });
  /** Media hashes whose embedding this pod has as a prefill pod. */
  readonly heldEmbeddings = new Set<string>();
  /** May be patched while the worker runs. */
  tuning: Tuning;
  /** Why the engine ended; undefined while it lives. */
  deathCause: string | undefined;
  /** True while the renderer loads, as during the model load of a real pod. */
  isLoading = false;
  #notReadyUntilMs = 0;
  #random: () => number;
  #globalFaults: Fault[];
  readonly #exit: EngineSetup['exit'];

  constructor(setup: EngineSetup) {
    const { config } = setup;
    this.config = config;
    this.tuning = tuningOf(config);
    this.reader = () => (this.#loading ??= setup.reader());
    this.kvPeer = setup.kvPeer;
    this.ecPeer = setup.ecPeer;
    this.bootstrapPort = setup.bootstrapPort;
    this.#exit = setup.exit;
    this.models = new ModelNames(config.models);
    this.metrics = new Metrics(this.models.default);
    this.cache = new PrefixCache(config.kvBlocks);
    this.storage = new SharedStorage(config.sharedDir);
    this.embeddings = new Embeddings(() => this.tuning.ecTtlMs);
    this.leases = new KvLeases({
      pod: config.podName,
      leaseMs: () => this.tuning.kvLeaseMs,
      release: (blocks, reason) => {
        this.cache.unpin(blocks);
        if (reason === 'expired') this.metrics.count('vllm:nixl_num_kv_expired_reqs_total');
      },
    });
    this.#random = seededRandom(config.seed);
    this.#globalFaults = this.#readFaults(config.fault);
  }

  /** Whether `/health/ready` says so. */
  get isReady(): boolean {
    return !this.isLoading && performance.now() >= this.#notReadyUntilMs;
  }

  /** Loads the renderer now instead of at the first request; not ready until it is there. */
  preload(): void {
    this.isLoading = true;
    this.reader().then(
      () => {
        this.isLoading = false;
      },
      (error: unknown) => this.die(`the renderer does not load: ${String(error)}`),
    );
  }

  /** Applies a patch of the run-time options. Throws ZodError or ApiError 400. */
  patch(patch: JsonObject): void {
    const tuning = patched(this.tuning, patch);
    if (patch['fault'] !== undefined) this.#globalFaults = this.#readFaults(tuning.fault);
    this.tuning = tuning;
  }

  /**
   * Rolls the dice for one request. Its own faults, `X-Sim-Fault` and a status in `X-Return-Error`, are
   * read only when allowed. Throws ApiError 400.
   */
  faultsOf(header: string | undefined, returnError: string | undefined): ActiveFaults {
    const texts = [header, returnError === undefined ? undefined : `status=${returnError}`];
    const own = this.tuning.faultHeaders ? parseFaults(texts.filter(Boolean).join(',')) : [];
    return new ActiveFaults([...own, ...this.#globalFaults], this.#random, (fault) =>
      this.metrics.count('sim_fault_total', { fault }),
    );
  }

  /** The latency model at the load of this moment. */
  latency(): Latency {
    return latencyOf(this.tuning, { running: this.slots.running, random: this.#random });
  }

  /** Ends the engine, as a real one ends: every later request fails until {@link reset}. */
  die(cause: string): ApiError {
    this.deathCause = cause;
    this.metrics.count('sim_engine_death_total');
    return new ApiError(500, engineDeadMessage);
  }

  /** Ends the process, or the engine when the process is not ours. */
  exit(code: number, cause: string): void {
    if (this.#exit) this.#exit(code);
    else this.die(cause);
  }

  /** Throws what a dead pod answers. */
  throwIfDead(): void {
    if (this.deathCause !== undefined) throw new ApiError(503, engineDeadMessage);
  }

  /** A pod started anew: another engine id, empty caches, counters, records and faults. */
  reset(): void {
    this.deathCause = undefined;
    this.leases.reset();
    this.rooms.reset();
    this.embeddings.reset();
    this.cache.clear();
    this.heldEmbeddings.clear();
    this.metrics.reset();
    this.log.clear();
    this.#random = seededRandom(this.tuning.seed);
    this.patch({ fault: '' });
  }

  /** What is held, used and lost: proves that nothing is stranded. */
  state(): EngineState {
    return {
      podName: this.config.podName,
      role: this.config.role,
      engineId: this.leases.engineId,
      deathCause: this.deathCause,
      running: this.slots.running,
      waiting: this.slots.waiting,
      blocks: { used: this.cache.used, capacity: this.cache.capacity },
      leases: this.leases.counts(),
      embeddings: this.embeddings.state(),
      rooms: { waiting: this.rooms.waiting },
      counters: Object.fromEntries(shownCounters.map((name) => [name, this.metrics.total(name)])),
    };
  }

  #readFaults(text: string): Fault[] {
    const faults = parseFaults(text);
    const notReady = faults.find(({ name }) => name === 'not-ready');
    this.#notReadyUntilMs = notReady ? performance.now() + (notReady.value ?? 0) : 0;
    return faults;
  }

  /** Stops timers and connections of its own; what loads is there then. */
  async close(): Promise<void> {
    this.leases.reset();
    this.rooms.reset();
    this.embeddings.reset();
    this.clock.close();
    await this.agent.destroy();
    await this.#loading?.catch(() => undefined);
  }
}

/** Body of `/admin/state`. */
export interface EngineState {
  podName: string;
  role: string;
  engineId: string;
  deathCause: string | undefined;
  running: number;
  waiting: number;
  blocks: { used: number; capacity: number };
  leases: ReturnType<KvLeases['counts']>;
  embeddings: ReturnType<Embeddings['state']>;
  /** Those who wait in a bootstrap room for the other pod. */
  rooms: { waiting: number };
  counters: Record<string, number>;
}

const shownCounters: readonly CounterName[] = [
  'sim_local_prefill_total',
  'sim_local_encode_total',
  'sim_kv_pull_total',
  'sim_ec_pull_total',
  'sim_role_violation_total',
  'sim_uuid_mismatch_total',
  'sim_ignored_ec_params_total',
  'sim_aborted_total',
  'sim_engine_death_total',
  'sim_room_abandoned_total',
];
