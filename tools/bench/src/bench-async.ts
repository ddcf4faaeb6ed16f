import { type Broker, openBroker } from '@llm-d/broker';
import { startRedis } from '@llm-d/testing/redis';
import { Queue, Worker } from 'bullmq';
import { randomUUID } from 'node:crypto';
import { Redis } from 'ioredis';
import { parseArgs } from 'node:util';
import { printTable } from './print-table.ts';

const lane = 'bench';
const tenants = 20;
/** Calls at once, as many as keep one core busy. */
const concurrency = 128;
const readyMs = 10_000;
const timeoutMs = 6 * 3_600_000;
/** Any deadline of the run lies in the past or the future of all others, as in a queue that is in use. */
const spreadMs = 3_600_000;
const payload = { model: 'bench', prompt: 'x'.repeat(2_000) };
const result = Buffer.from(JSON.stringify({ choices: [{ text: 'y'.repeat(400) }] }));

/** What a part of the run cost: by the clock, and by the processor time of this process and of Redis. */
interface Cost {
  readonly count: number;
  readonly seconds: number;
  readonly cpuSeconds: number;
  readonly redisSeconds: number;
}

interface System {
  readonly name: string;
  /** Queues so many requests. */
  readonly fill: (count: number) => Promise<void>;
  /** Runs so many that wait. */
  readonly drain: (count: number) => Promise<void>;
  close(): Promise<void>;
}

async function costOf(
  redis: Redis,
  count: number,
  work: (count: number) => Promise<void>,
): Promise<Cost> {
  const redisBefore = await redisSeconds(redis);
  const [startedAt, cpu] = [performance.now(), process.cpuUsage()];
  await work(count);
  const { user, system } = process.cpuUsage(cpu);
  const seconds = (performance.now() - startedAt) / 1_000;
  const cpuSeconds = (user + system) / 1e6;
  return { count, seconds, cpuSeconds, redisSeconds: (await redisSeconds(redis)) - redisBefore };
}

async function redisSeconds(redis: Redis): Promise<number> {
  const times = (await redis.info('cpu')).matchAll(/^used_cpu_(?:user|sys):([\d.]+)/gm);
  return [...times].reduce((sum, [, seconds]) => sum + Number(seconds), 0);
}

async function usedMemory(redis: Redis): Promise<number> {
  return Number(/used_memory:(\d+)/.exec(await redis.info('memory'))?.[1]);
}

/** Calls so often, `concurrency` at a time. */
async function repeat(count: number, call: () => Promise<unknown>): Promise<void> {
  let left = count;
  const loop = async (): Promise<void> => {
    while (left > 0) {
      left -= 1;
      await call();
    }
  };
  await Promise.all(Array.from({ length: concurrency }, loop));
}

/** Records, open sets, tickets and results: what the broker does with a request. */
async function ours(url: string): Promise<System> {
  const most = Number.MAX_SAFE_INTEGER;
  const broker: Broker = openBroker({
    redis: { url },
    lanes: [{ name: lane, maxBacklog: most }],
    tenant: () => ({ maxBacklog: most, concurrency: most }),
  });
  await broker.untilReady(AbortSignal.timeout(readyMs));
  let made = 0;
  const submit = async (): Promise<void> => {
    const answer = await broker.submit({
      ...{ tenant: `tenant-${made++ % tenants}`, lane, mode: 'enqueue', tier: 'async' },
      ...{ model: 'bench', path: '/v1/completions', contentType: 'application/json' },
      timeoutMs: timeoutMs + Math.floor(Math.random() * spreadMs),
      body: Buffer.from(JSON.stringify(payload)),
      forwardedHeaders: [],
    });
    if (answer.kind !== 'new') throw new Error(`not accepted: ${answer.kind}`);
  };
  const drain = async (count: number): Promise<void> => {
    const { promise, resolve } = Promise.withResolvers<void>();
    let done = 0;
    const worker = await broker.openLaneWorker(
      {
        ...{ lane, concurrency },
        handle: async (ticket) => {
          const { dispatch } = broker;
          const token = randomUUID();
          const begun = await dispatch.begin(ticket, token);
          if (begun.kind === 'run') {
            const lease = await dispatch.acquireQuota(ticket.tenant);
            await dispatch.body(ticket);
            await dispatch.finish(ticket, token, { kind: 'response', status: 200, body: result });
            await lease.release();
          }
          if ((done += 1) === count) resolve();
          return { kind: 'done' };
        },
      },
      AbortSignal.timeout(readyMs),
    );
    await promise;
    await worker.close();
  };
  return {
    name: 'broker',
    fill: (count) => repeat(count, submit),
    drain,
    close: () => broker.close(),
  };
}

/** The peer: BullMQ alone, payload and result in the job, no record, no quota, nothing to fetch or cancel by. */
function plain(url: string): Promise<System> {
  const connection = new Redis(url, { maxRetriesPerRequest: null });
  const options = { connection, prefix: '{plain}' };
  const queue = new Queue('plain', { ...options, streams: { events: { maxLen: 1_000 } } });
  const drain = async (count: number): Promise<void> => {
    const { promise, resolve } = Promise.withResolvers<void>();
    const run = (): Promise<string> => Promise.resolve(result.toString());
    const worker = new Worker('plain', run, { ...options, concurrency });
    let done = 0;
    worker.on('completed', () => {
      if ((done += 1) === count) resolve();
    });
    await promise;
    await worker.close();
  };
  return Promise.resolve({
    name: 'bullmq alone',
    fill: (count) =>
      repeat(count, () =>
        queue.add('request', payload, {
          priority: 1 + Math.floor(Math.random() * (spreadMs / 1_000)),
          removeOnComplete: { age: 3_600 },
        }),
      ),
    drain,
    close: async () => {
      await queue.close();
      connection.disconnect();
    },
  });
}

interface Measured {
  readonly name: string;
  readonly steps: readonly [string, Cost][];
  /** Memory of Redis for a request that waits, with its body. */
  readonly queuedBytes: number;
  /** And for one that is done, with its answer; undefined where others wait. */
  readonly finishedBytes: number | undefined;
}

/** Fills, fills up to the backlog, and drains as much as was first filled. */
async function measure(
  open: (url: string) => Promise<System>,
  count: number,
  backlog: number,
): Promise<Measured> {
  await using server = await startRedis([
    ...['--appendonly', 'yes'],
    // A rewrite of the file falls into one step of the one or the other.
    ...['--auto-aof-rewrite-percentage', '0'],
  ]);
  const redis = new Redis(server.url);
  const system = await open(server.url);
  try {
    await system.fill(count / 10);
    await system.drain(count / 10);
    const before = await usedMemory(redis);
    const steps: [string, Cost][] = [['admit, empty', await costOf(redis, count, system.fill)]];
    const bytesEach = async (): Promise<number> => ((await usedMemory(redis)) - before) / count;
    const queuedBytes = await bytesEach();
    let finishedBytes: number | undefined;
    if (backlog > count) {
      await system.fill(backlog - count);
      steps.push([`admit, ${backlog} queued`, await costOf(redis, count, system.fill)]);
      steps.push([`dispatch, ${backlog} queued`, await costOf(redis, count, system.drain)]);
    } else {
      steps.push(['dispatch', await costOf(redis, count, system.drain)]);
      finishedBytes = await bytesEach();
    }
    return { name: system.name, steps, queuedBytes, finishedBytes };
  } finally {
    await system.close();
    redis.disconnect();
  }
}

/** `bench async`: admissions and dispatches of one process beside BullMQ alone, with a private Redis. */
export async function benchAsync(args: string[]): Promise<void> {
  const options = {
    count: { type: 'string', default: '20000' },
    backlog: { type: 'string', default: '0' },
  } as const;
  const { values } = parseArgs({ args, options });
  const [count, backlog] = [Number(values.count), Number(values.backlog)];
  const [own, peer] = [await measure(ours, count, backlog), await measure(plain, count, backlog)];
  const steps = own.steps.map(([name, cost], index) => ({
    name,
    cost,
    beside: peer.steps[index]?.[1],
  }));
  const last = steps.slice(-2);
  const total = sum(last.map(({ cost }) => cost));
  const rows = [
    ...steps,
    { name: 'both', cost: total, beside: sum(last.flatMap(({ beside }) => beside ?? [])) },
  ].map(({ name, cost, beside = zero }) => [
    ...[name, ...describe(cost), ...describe(beside)],
    ...[
      (beside.seconds / cost.seconds).toFixed(2),
      (beside.cpuSeconds / cost.cpuSeconds).toFixed(2),
    ],
  ]);
  const columns = ['per s', 'CPU us', 'Redis us'];
  const peerColumns = columns.map((name) => `peer ${name}`);
  printTable(['step', ...columns, ...peerColumns, 'ratio', 'CPU ratio'], rows);
  console.log(
    "A dispatch takes, begins and finishes a request; the coordinator's call is not part of it.",
  );
  const kilobytes = (bytes: number): string => `${(bytes / 1_024).toFixed(1)} KB`;
  console.log(`Redis memory of a queued request: ${kilobytes(own.queuedBytes)}`);
  if (own.finishedBytes !== undefined) {
    console.log(`and of a finished one with its answer: ${kilobytes(own.finishedBytes)}`);
  }
}

const zero: Cost = { count: 0, seconds: 0, cpuSeconds: 0, redisSeconds: 0 };

/** An admission and a dispatch of the same requests. */
function sum(costs: readonly Cost[]): Cost {
  return costs.reduce(
    (all, cost) => ({
      count: cost.count,
      seconds: all.seconds + cost.seconds,
      cpuSeconds: all.cpuSeconds + cost.cpuSeconds,
      redisSeconds: all.redisSeconds + cost.redisSeconds,
    }),
    zero,
  );
}

/** Requests per second, and what each took of the processors. */
function describe({ count, seconds, cpuSeconds, redisSeconds }: Cost): string[] {
  const each = (spent: number): string => ((spent / count) * 1e6).toFixed(0);
  return [(count / seconds).toFixed(0), each(cpuSeconds), each(redisSeconds)];
}
