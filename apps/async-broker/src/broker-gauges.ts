import { type LaneBacklog } from '@llm-d/broker';
import { Gauge, type Registry } from 'prom-client';
import { type BandState } from './gates/aimd.ts';
import { names, poolName, queueLabel, queueLabels } from './metric-labels.ts';

/** One lane at a scrape. */
export interface LaneGauges {
  readonly lane: string;
  readonly isPaused: boolean;
  /** Calls to the target. */
  readonly inFlight: number;
  /** What the operator's budget leaves. */
  readonly slots: number;
  readonly budget: number;
  /** Undefined until it was counted. */
  readonly backlog: LaneBacklog | undefined;
}

/** What gauges ask at every scrape. */
export interface GaugeSources {
  /** Requests in hand, those that wait at a gate included. */
  readonly inHand: () => number;
  readonly lanes: () => readonly LaneGauges[];
  /** Bands of congestion control by name. */
  readonly bands: () => readonly (readonly [string, BandState])[];
  readonly health: () => { readonly isReady: boolean; readonly memoryRatio: number };
}

/** Adds the gauges to a registry. */
export function addGauges(registry: Registry, sources: GaugeSources): void {
  const named = (prefix: string, name: string, help: string) => ({
    name: prefix + name,
    help,
    registers: [registry],
  });
  const perQueue = (
    name: string,
    help: string,
    value: (lane: LaneGauges) => number | undefined,
  ): void => {
    new Gauge({
      ...named(names.upstream, name, help),
      labelNames: queueLabels,
      collect() {
        this.reset();
        for (const lane of sources.lanes()) {
          const number = value(lane);
          if (number !== undefined) this.set(queueLabel(lane.lane), number);
        }
      },
    });
  };
  const single = (prefix: string, name: string, help: string, value: () => number): void => {
    new Gauge({
      ...named(prefix, name, help),
      collect() {
        this.set(value());
      },
    });
  };
  const band = (name: string, help: string, value: (state: BandState) => number): void => {
    new Gauge({
      ...named(names.upstream, name, help),
      labelNames: ['pool_name', 'band'],
      collect() {
        for (const [band, state] of sources.bands()) {
          this.set({ pool_name: poolName, band }, value(state));
        }
      },
    });
  };
  single(names.upstream, 'async_queue_depth', 'Requests in hand that wait at a gate.', () => {
    const inFlight = sources.lanes().reduce((sum, lane) => sum + lane.inFlight, 0);
    return Math.max(sources.inHand() - inFlight, 0);
  });
  perQueue('async_inflight_requests', 'Calls to the target.', ({ inFlight }) => inFlight);
  perQueue('async_broker_backlog', 'Requests without an outcome.', ({ backlog }) => backlog?.open);
  perQueue(
    'async_dispatch_budget',
    'Share that the operator lets through.',
    ({ budget }) => budget,
  );
  new Gauge({
    ...named(names.upstream, 'async_pool_worker_limit', 'Slots of this process.'),
    labelNames: ['pool_name'],
    collect() {
      const slots = sources.lanes().map((lane) => lane.slots);
      this.set({ pool_name: poolName }, Math.max(0, ...slots));
    },
  });
  band('async_aimd_window', 'Calls that a band may have.', ({ window }) => window);
  band('async_aimd_ssthresh', 'Window from which growth is slow.', ({ threshold }) => threshold);
  band('async_aimd_inflight', 'Calls that a band has.', ({ inFlight }) => inFlight);
  single(names.own, 'redis_memory_ratio', 'Memory of Redis, used of allowed.', () => {
    return sources.health().memoryRatio;
  });
  single(names.own, 'redis_ready', 'Whether Redis is connected and as it must be.', () => {
    return sources.health().isReady ? 1 : 0;
  });
  new Gauge({
    ...named(names.own, 'lane_backlog', 'Requests of a lane by state.'),
    labelNames: ['lane', 'state'],
    collect() {
      this.reset();
      for (const { lane, backlog } of sources.lanes()) {
        for (const state of ['waiting', 'active', 'delayed', 'open'] as const) {
          if (backlog) this.set({ lane, state }, backlog[state]);
        }
      }
    },
  });
  new Gauge({
    ...named(names.own, 'lane_paused', 'Whether this process takes nothing from a lane.'),
    labelNames: ['lane'],
    collect() {
      this.reset();
      for (const { lane, isPaused } of sources.lanes()) this.set({ lane }, isPaused ? 1 : 0);
    },
  });
}
