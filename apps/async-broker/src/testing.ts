import {
  type Accepted,
  type Broker,
  type BrokerRedis,
  openBroker,
  type Outcome,
  type RequestRef,
  type Submission,
} from '@llm-d/broker';
import { startService, type RunningService } from '@llm-d/service';
import { createLogger, startTracing, type Tracing } from '@llm-d/telemetry';
import {
  type RedisServer,
  type Script,
  scriptedServer,
  type ScriptedServer,
  startRedis,
} from '@llm-d/testing';
import { parse, stringify } from 'yaml';
import { type App, createApp } from './app.ts';
import { brokerFile } from './config.ts';

/** A Redis as the broker wants it. */
export const queueRedis = [
  '--appendonly',
  'yes',
  '--maxmemory',
  '256mb',
  '--maxmemory-policy',
  'noeviction',
];

/** How a rig differs from the default. */
export interface RigOptions {
  /** In the words of the file. */
  readonly config?: object;
  readonly redisArgs?: readonly string[];
  readonly script?: Script;
  /** False: the processor is not started, requests stay in the queue. */
  readonly isStarted?: boolean;
  /** Nodes of a cluster, which take the place of the rig's own Redis. */
  readonly cluster?: readonly string[];
  /** Where runs are traced to: the URL of a collector. */
  readonly collector?: string;
}

/** A processor in this process with a Redis and a target of its own, and a broker to submit with. */
export class Rig implements AsyncDisposable {
  readonly redis: RedisServer;
  readonly upstream: ScriptedServer;
  readonly broker: Broker;
  readonly lines: Record<string, unknown>[];
  readonly lane = 'lane-a';
  /** By what way the processor reaches Redis. */
  brokerRedis: BrokerRedis;
  readonly #config: object;
  readonly #collector: string | undefined;
  tracing: Tracing | undefined;
  app: App | undefined;
  running: RunningService | undefined;

  private constructor(
    parts: Pick<Rig, 'redis' | 'upstream' | 'broker' | 'lines'>,
    options: RigOptions,
  ) {
    this.redis = parts.redis;
    this.upstream = parts.upstream;
    this.broker = parts.broker;
    this.lines = parts.lines;
    this.#config = options.config ?? {};
    this.#collector = options.collector;
    this.brokerRedis = redisOf(parts.redis, options);
  }

  static async open(options: RigOptions = {}): Promise<Rig> {
    const { config = {}, redisArgs = queueRedis, script = { json: { ok: true } } } = options;
    const redis = await startRedis(redisArgs);
    const upstream = await scriptedServer(script);
    const lanes = (config as { lanes?: { name: string }[] }).lanes ?? [{ name: 'lane-a' }];
    const broker = openBroker({
      ...{ redis: redisOf(redis, options), lanes, appendOnlyFile: 'warn' },
    });
    const rig = new Rig({ redis, upstream, broker, lines: [] }, options);
    await until(() => broker.health().isReady || options.redisArgs !== undefined);
    if (options.isStarted !== false) await rig.start();
    return rig;
  }

  /** Starts the processor and, when Redis is as it must be, waits until it works. */
  async start(isReadyExpected = true): Promise<void> {
    const file = parse(stringify({ lanes: [{ name: this.lane }], ...this.#config })) as object;
    const data = brokerFile.parse({ worker: { lock: '2s', stalled_interval: '500ms' }, ...file });
    const logger = createLogger({
      service: 'test',
      level: 2,
      destination: {
        write: (line) => this.lines.push(JSON.parse(line) as Record<string, unknown>),
      },
    });
    if (this.#collector !== undefined) {
      const environment = { OTEL_EXPORTER_OTLP_ENDPOINT: this.#collector };
      this.tracing = await startTracing(environment, logger, 'llm-d-async-broker');
    }
    const settings = { ...data, brokerRedis: this.brokerRedis, address: this.upstream.url };
    const app = await createApp(settings, logger, this.tracing);
    this.app = app;
    app.start();
    const where = { host: '127.0.0.1', port: 0 };
    this.running = await startService(app.service, { ...where, shutdownTimeoutMs: 20_000, logger });
    if (isReadyExpected) await until(async () => (await this.get('/readyz')).status === 200);
  }

  get(path: string, headers: Record<string, string> = {}): Promise<Response> {
    return fetch(`${this.running?.url ?? ''}${path}`, { headers });
  }

  async metric(line: string): Promise<number> {
    const text = await (await this.get('/metrics')).text();
    const found = text.split('\n').find((candidate) => candidate.startsWith(`${line} `));
    return found === undefined ? Number.NaN : Number(found.slice(line.length + 1));
  }

  /** A broker that knows another lane; whoever asked for it closes it. */
  static async producer(rig: Rig, lane: string): Promise<Broker> {
    const broker = openBroker({ redis: { url: rig.redis.url }, lanes: [{ name: lane }] });
    await until(() => broker.health().isReady);
    return broker;
  }

  submission(change: Partial<Submission> = {}): Submission {
    return {
      tenant: 'team-a',
      mode: 'enqueue',
      lane: this.lane,
      tier: 'async',
      model: 'm',
      path: '/v1/completions',
      contentType: 'application/json',
      body: Buffer.from('{"model":"m","prompt":"hi"}'),
      forwardedHeaders: [],
      timeoutMs: 60_000,
      ...change,
    };
  }

  async submit(change: Partial<Submission> = {}): Promise<Accepted> {
    const result = await this.broker.submit(this.submission(change));
    if (!('generation' in result)) throw new Error(`not accepted: ${result.kind}`);
    return result;
  }

  /** The outcome of a request as soon as it is there; undefined when it is gone. */
  async outcome(ref: RequestRef): Promise<Outcome | undefined> {
    let outcome: Outcome | undefined;
    await until(async () => {
      const found = await this.broker.fetch(ref);
      if (found.kind === 'ready') ({ outcome } = found);
      return found.kind !== 'pending';
    });
    return outcome;
  }

  /** Stops the processor as a SIGTERM does. */
  async stop(): Promise<void> {
    await this.running?.stop();
    await this.app?.close();
    await this.tracing?.close(2_000);
    this.running = undefined;
    this.app = undefined;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.redis.thaw();
    await this.stop();
    await this.broker.close();
    await this.upstream.close();
    await this.redis.close();
  }
}

function redisOf({ url }: RedisServer, { cluster }: RigOptions): BrokerRedis {
  return cluster ? { clusterUrls: cluster } : { url };
}

/** Resolves when a condition holds; rejects after ten seconds, or a given time. */
export async function until(
  condition: () => boolean | Promise<boolean>,
  limitMs = 10_000,
): Promise<void> {
  const end = performance.now() + limitMs;
  while (!(await condition())) {
    if (performance.now() > end) throw new Error('the condition did not come true in time');
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}
