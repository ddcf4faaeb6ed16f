import { type Broker, openBroker } from '@llm-d/broker';
import { FaultLog, type Logger, type Tracing } from '@llm-d/telemetry';
import { BrokerMetrics } from './broker-metrics.ts';
import { Dispatcher } from './dispatch/dispatcher.ts';
import { Aimd } from './gates/aimd.ts';
import { LaneGates } from './gates/lane-gates.ts';
import { type BrokerAppConfig } from './load-config.ts';
import { LanePool } from './work/lane-pool.ts';
import { Runs } from './work/run.ts';
import { TicketRunner } from './work/ticket-runner.ts';

/** The working half of the service, apart from HTTP. */
export interface Processor {
  readonly metrics: BrokerMetrics;
  /** What stops readiness, with the command that mends it; empty when workers may take tickets. */
  problems(): string[];
  /** Begins to work as soon as Redis lets it. */
  start(): void;
  /** Hands over what runs; resolves when nothing does. Never rejects. */
  drain(): Promise<void>;
  /** Ends the connections; after `drain`. */
  close(): Promise<void>;
}

/** What a processor is made of. */
export interface ProcessorOptions {
  readonly config: BrokerAppConfig;
  readonly logger: Logger;
  /** Undefined where runs are not traced. */
  readonly tracing: Tracing | undefined;
  /** Hears of every lane that is served. */
  readonly onLane: (lane: string) => void;
}

/** Puts the parts together. */
export function openProcessor(options: ProcessorOptions): Processor {
  const { config, logger, tracing, onLane } = options;
  const { dispatch, gates: gateConfig, lanes, tenants, worker } = config;
  const metrics = new BrokerMetrics();
  const redisKey = 'url' in config.brokerRedis ? 'redis.url' : 'redis.cluster';
  const faults = new FaultLog(logger, `${redisKey}: cannot be used`);
  const broker: Broker = openBroker({
    redis: config.brokerRedis,
    lanes,
    tenant: (tenant) => {
      const concurrency = Object.hasOwn(tenants, tenant) ? tenants[tenant]?.concurrency : undefined;
      return concurrency === undefined ? undefined : { concurrency };
    },
    lifetimes: { resultMs: config.result_ttl },
    appendOnlyFile: config.redis.append_only_file,
    compatCounters: config.quota.compat_counters
      ? {
          attribute: config.quota.attribute,
          windowSeconds: Math.ceil(config.quota.window / 1_000),
        }
      : undefined,
    observer: {
      ...metrics.broker,
      onError: (error) => {
        faults.note(error);
      },
    },
  });
  const laneNames = lanes.map(({ name }) => name);
  const limits = gateConfig.aimd;
  const aimd =
    limits &&
    new Aimd(2 * (laneNames.length + 1), {
      minWindow: limits.min,
      maxWindow: limits.max,
      increase: limits.increase,
      decrease: limits.decrease,
    });
  const gates = new LaneGates(
    {
      lanes: laneNames,
      slots: dispatch.slots,
      aimd,
      saturated: gateConfig.saturated,
      longestWaitMs: gateConfig.longest_wait,
    },
    (reason, lane) => {
      metrics.onHeldUp(reason, lane);
    },
  );
  const runs = new Runs();
  const dispatcher = new Dispatcher({
    address: config.address,
    connectTimeoutMs: dispatch.connect_timeout,
    attemptTimeoutMs: dispatch.attempt_timeout,
    maxAnswerBytes: dispatch.max_answer_bytes,
  });
  const runner = new TicketRunner({
    dispatch: broker.dispatch,
    dispatcher,
    gates,
    runs,
    rules: { retriesConnectErrors: dispatch.retry_connect_errors },
    objectives: config.objectives,
    observer: metrics,
    logger,
    tracing,
    onLaneSaturated: (lane, pauseMs) => {
      // Bands that learn close themselves.
      if (!aimd) pool.pauseLane(lane, Math.min(pauseMs, longestLanePauseMs));
    },
  });
  const pool: LanePool = new LanePool({
    broker,
    runner,
    runs,
    gates,
    slots: dispatch.slots,
    lockMs: worker.lock,
    stalledIntervalMs: worker.stalled_interval,
    stuckMs: worker.stuck_after,
    logger,
    onLane: (lane) => {
      metrics.addLane(lane);
      onLane(lane);
    },
  });
  metrics.watch({
    inHand: () => runs.size,
    lanes: () =>
      pool.states().map(({ lane, isPaused, backlog }) => ({
        ...{ lane, isPaused, backlog },
        inFlight: gates.inFlight(lane),
        slots: gates.slots(lane),
        budget: gates.budget(lane),
      })),
    bands: () => (aimd ? bandNames(laneNames).map((band, rank) => [band, aimd.state(rank)]) : []),
    health: () => broker.health(),
  });
  const sweeper = broker.startSweeper();
  let starting = Promise.resolve();
  let isWorking = false;
  return {
    metrics,
    problems: () => {
      const { isReady, problems } = broker.health();
      if (isReady) return isWorking ? [] : ['workers are starting'];
      const texts = problems.map(({ text, command }) => `${redisKey}: ${text}: ${command}`);
      return texts.length > 0 ? texts : [`${redisKey}: not reachable`];
    },
    start: () => {
      starting = pool.start().then(
        () => {
          isWorking = true;
          logger.info({ lanes: laneNames }, 'workers take requests');
          for (const { text, command } of broker.health().warnings) logger.warn({ command }, text);
        },
        () => undefined,
      );
    },
    drain: async () => {
      await pool.drain(config.drain_timeout);
      await starting;
    },
    close: async () => {
      await sweeper.close();
      await dispatcher.close();
      await broker.close();
    },
  };
}

/** Longer pauses are asked for by mistake, or are for the next attempt to hear again. */
const longestLanePauseMs = 60_000;

function bandNames(lanes: readonly string[]): string[] {
  return ['reserved', 'overflow'].flatMap((classification) =>
    [...lanes, 'other'].map((lane) => `${classification}-${lane}`),
  );
}
