import { type Broker, openBroker, type RequestRef } from '@llm-d/broker';
import { startRedis } from '@llm-d/testing/redis';
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { printTable } from './print-table.ts';

const lane = 'waiters';
const tenant = 'bench';
const timeoutMs = 600_000;
const readyMs = 10_000;
/** Admissions at once, as many as keep the queue's connection busy. */
const batch = 200;
/** Results are stored in steps of this. */
const tickMs = 5;
/** The first results warm both processes up and do not count. */
const warmUp = 500;
/** More than one sweep of all waits. */
const restMs = 3_000;
/** What the issue asks for. */
const targetMs = 40;

/** The clock that two processes of a machine share, in milliseconds. */
const clockMs = (): number => performance.timeOrigin + performance.now();

interface Work {
  readonly url: string;
  readonly refs: readonly RequestRef[];
  readonly perSecond: number;
}

async function open(url: string, count: number): Promise<Broker> {
  const broker = openBroker({
    redis: { url },
    lanes: [{ name: lane, maxBacklog: count }],
    tenant: () => ({ maxBacklog: count }),
    limits: { maxHeldWaits: count },
  });
  await broker.untilReady(AbortSignal.timeout(readyMs));
  return broker;
}

/** The other process: stores the results, each with the time of its storing, at a steady rate. */
async function storeResults({ url, refs, perSecond }: Work): Promise<void> {
  await using broker = await open(url, refs.length);
  const startedAt = performance.now();
  const stored: Promise<unknown>[] = [];
  while (stored.length < refs.length) {
    const due = Math.floor(((performance.now() - startedAt) / 1_000) * perSecond);
    for (const ref of refs.slice(stored.length, Math.max(due, stored.length))) {
      const body = Buffer.from(String(clockMs()));
      stored.push(broker.dispatch.finish(ref, '', { kind: 'response', status: 200, body }));
    }
    await sleep(tickMs);
  }
  await Promise.all(stored);
}

async function admit(broker: Broker, count: number): Promise<RequestRef[]> {
  const refs: RequestRef[] = [];
  const body = Buffer.from(JSON.stringify({ model: 'bench', prompt: 'x'.repeat(2_000) }));
  const request = { tenant, lane, mode: 'wait', tier: 'async', model: 'bench', timeoutMs } as const;
  const rest = { path: '/v1/completions', contentType: 'application/json', forwardedHeaders: [] };
  while (refs.length < count) {
    const size = Math.min(batch, count - refs.length);
    const results = await Promise.all(
      Array.from({ length: size }, () => broker.submit({ ...request, ...rest, body })),
    );
    for (const result of results) {
      if (!('generation' in result)) throw new Error(`not accepted: ${result.kind}`);
      refs.push({ tenant, id: result.id, generation: result.generation });
    }
  }
  return refs;
}

/** Milliseconds from the moment before a result is stored to its wait's end, with the result read. */
async function wakeUp(broker: Broker, ref: RequestRef): Promise<number> {
  const signal = new AbortController().signal;
  const end = await broker.wait(ref, { timeoutMs, isCounted: true, signal });
  if (end.kind !== 'ready' || end.outcome.kind !== 'response') throw new Error(`ended ${end.kind}`);
  return clockMs() - Number(end.outcome.body.toString());
}

/** `bench waiters`: parks waits in one process, stores their results from another, prints how late each one wakes. */
export async function benchWaiters(args: string[]): Promise<void> {
  if (args[0] === '--store') {
    const [work] = (await once(process, 'message')) as [Work];
    await storeResults(work);
    process.disconnect();
    return;
  }
  const options = {
    count: { type: 'string', default: '20000' },
    'per-second': { type: 'string', default: '2000' },
  } as const;
  const { values } = parseArgs({ args, options });
  const [count, perSecond] = [Number(values.count), Number(values['per-second'])];
  await using server = await startRedis(['--appendonly', 'yes']);
  await using broker = await open(server.url, count + warmUp);
  const refs = await admit(broker, count + warmUp);
  const memoryBefore = process.memoryUsage().rss;
  const waits = refs.map((ref) => wakeUp(broker, ref));
  await sleep(restMs);
  const memory = process.memoryUsage().rss - memoryBefore;
  const child = fork(process.argv[1] ?? '', ['waiters', '--store']);
  const ended = once(child, 'exit');
  child.send({ url: server.url, refs, perSecond } satisfies Work);
  const cpuBefore = process.cpuUsage();
  const late = (await Promise.all(waits)).slice(warmUp).sort((a, b) => a - b);
  const { user, system } = process.cpuUsage(cpuBefore);
  await ended;
  const at = (share: number): string =>
    (late[Math.min(Math.floor(late.length * share), late.length - 1)] ?? NaN).toFixed(1);
  printTable(
    ['waits', 'results/s', 'p50 ms', 'p99 ms', 'at most', 'max ms', 'KB each', 'CPU ms each'],
    [
      [
        ...[String(count), String(perSecond), at(0.5), at(0.99), String(targetMs), at(1)],
        ...[(memory / 1_024 / count).toFixed(1), ((user + system) / 1_000 / count).toFixed(3)],
      ],
    ],
  );
}
