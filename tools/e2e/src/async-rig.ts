import {
  type Accepted,
  type Broker,
  openBroker,
  type Outcome,
  type RequestRef,
  type Submission,
} from '@llm-d/broker';
import { ServiceProcess, until } from '@llm-d/soak';
import {
  type RedisServer,
  type Script,
  scriptedServer,
  type ScriptedServer,
  startRedis,
} from '@llm-d/testing';

/** A Redis as the broker wants it, which keeps everything over a restart. */
const redisArgs = [
  ...['--appendonly', 'yes', '--appendfsync', 'always'],
  ...['--maxmemory', '256mb', '--maxmemory-policy', 'noeviction'],
];

/** A Redis, a target, processes of the async broker, and a broker of this process that submits. */
export class AsyncRig implements AsyncDisposable {
  readonly redis: RedisServer;
  readonly target: ScriptedServer;
  readonly broker: Broker;
  readonly workers: ServiceProcess[] = [];

  private constructor(redis: RedisServer, target: ScriptedServer) {
    this.redis = redis;
    this.target = target;
    this.broker = openBroker({ redis: { url: redis.url }, lanes: [{ name: 'lane-a' }] });
  }

  /** Opens it with a number of worker processes. */
  static async open(script: Script, workers = 1, config: object = {}): Promise<AsyncRig> {
    const rig = new AsyncRig(await startRedis(redisArgs), await scriptedServer(script));
    await rig.broker.untilReady(AbortSignal.timeout(10_000));
    for (let i = 0; i < workers; i += 1) await rig.addWorker(config);
    return rig;
  }

  async addWorker(config: object = {}): Promise<ServiceProcess> {
    const worker = await ServiceProcess.start('async-broker', (port) => ({
      listen: `127.0.0.1:${port}`,
      redis: { url: this.redis.url },
      dispatch: { address: this.target.url },
      lanes: [{ name: 'lane-a' }],
      worker: { lock: '1s', stalled_interval: '300ms' },
      ...config,
    }));
    this.workers.push(worker);
    await worker.ready();
    return worker;
  }

  async submit(change: Partial<Submission> = {}): Promise<Accepted> {
    const result = await this.broker.submit({
      tenant: 'team-a',
      mode: 'enqueue',
      lane: 'lane-a',
      tier: 'async',
      model: 'm',
      path: '/v1/completions',
      contentType: 'application/json',
      body: Buffer.from('{"model":"m","prompt":"hi"}'),
      forwardedHeaders: [],
      timeoutMs: 60_000,
      ...change,
    });
    if (!('generation' in result)) throw new Error(`not accepted: ${result.kind}`);
    return result;
  }

  /** What a client is told in the end; undefined for a request that is gone. */
  outcome(ref: RequestRef, limitMs = 20_000): Promise<Outcome | 'gone'> {
    return until(
      'the outcome',
      async () => {
        const found = await this.broker.fetch(ref).catch(() => undefined);
        if (found?.kind === 'ready') return found.outcome;
        return found?.kind === 'unknown' ? 'gone' : undefined;
      },
      limitMs,
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.redis.thaw();
    for (const worker of this.workers) await worker[Symbol.asyncDispose]();
    await this.broker.close();
    await this.target.close();
    await this.redis.close();
  }
}
