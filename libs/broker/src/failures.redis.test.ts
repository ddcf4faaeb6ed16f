import {
  afterAll,
  afterEach,
  beforeAll,
  beforeEach,
  describe,
  expect,
  it,
  jest,
} from '@jest/globals';
import { setTimeout as sleep } from 'node:timers/promises';
import { startRedis, startTcpRelay } from '@llm-d/testing';
import { type Broker } from './broker.ts';
import { type LaneWorker } from './lane-worker.ts';
import { accept, answer, type BrokerBench, brokerBench, soon, submission } from './testing.ts';

// Rows of the failure table 5, counted from F1, that concern Redis as a whole and the way to it.
let bench: BrokerBench;
let broker: Broker;

beforeAll(async () => {
  bench = await brokerBench();
});
afterAll(() => bench.close());
beforeEach(async () => {
  await bench.reset();
  broker = await bench.open();
});
afterEach(() => {
  jest.restoreAllMocks();
});

/** Ends every request of the lane with `{}`. */
function workerOf(target: Broker): Promise<LaneWorker> {
  return target.openLaneWorker(
    {
      lane: 'a',
      handle: async (ticket) => {
        const begun = await target.dispatch.begin(ticket, 'token');
        if (begun.kind === 'run') await target.dispatch.finish(ticket, 'token', answer('{}'));
        return { kind: 'done' };
      },
    },
    soon(),
  );
}

async function untilReady(target: Broker, id: string): Promise<void> {
  const signal = soon();
  while ((await target.fetch({ tenant: 'team-a', id })).kind !== 'ready') {
    signal.throwIfAborted();
    await sleep(5);
  }
}

describe('data that Redis loses', () => {
  it('F12 FLUSH: requests are unknown, held waits end, and the next one runs (P16 to P18)', async () => {
    const lost = await accept(broker, { id: 'lost', mode: 'wait' });
    const held = broker.wait(lost, { timeoutMs: 10_000, isCounted: true, signal: soon() });
    const worker = await workerOf(broker);
    worker.pause();
    await accept(broker, { id: 'waiting' });
    await bench.redis.flushall();
    // By the look at all that are held, every 2 s.
    expect(await held).toEqual({ kind: 'unknown' });
    expect(await broker.fetch(lost)).toEqual({ kind: 'unknown' });
    expect(await broker.dispatch.finish(lost, 'token', answer('{}'))).toBe('gone');
    worker.resume();
    expect(await accept(broker, { id: 'lost' })).toMatchObject({ kind: 'new' });
    await untilReady(broker, 'lost');
    await worker.close();
  });

  it('F11 P18 fail-over to a stale replica: what it lacks is unknown, what it has goes on, and its workers with it', async () => {
    await using replica = await startRedis(['--appendonly', 'yes', '--appendfsync', 'no']);
    await using relay = await startTcpRelay(bench.server.url);
    const failing = await bench.open({ redis: { url: relay.url } });
    const worker = await workerOf(failing);
    worker.pause();
    await accept(failing, { id: 'old' });
    await bench.redis.config('SET', 'repl-diskless-sync-delay', 0);
    await replica.command('REPLICAOF', '127.0.0.1', new URL(bench.server.url).port);
    const signal = soon();
    while (!(await replica.command('KEYS', 'ab:*old}:rec')).includes('old')) {
      signal.throwIfAborted();
      await sleep(5);
    }
    await replica.command('REPLICAOF', 'NO', 'ONE');
    await accept(failing, { id: 'recent' });
    relay.redirect(replica.url);
    await failing.untilReady(soon());
    while (
      (await failing.fetch({ tenant: 'team-a', id: 'recent' }).catch(() => undefined))?.kind !==
      'unknown'
    ) {
      signal.throwIfAborted();
      await sleep(5);
    }
    worker.resume();
    await untilReady(failing, 'old');
    expect(await accept(failing, { id: 'recent' })).toMatchObject({ kind: 'new' });
    await untilReady(failing, 'recent');
    await worker.close();
  });
});

describe('a network that is cut', () => {
  it('F16 between API and Redis alone: 503 and 504 there, and the request runs to its end', async () => {
    await using relay = await startTcpRelay(bench.server.url);
    const api = await bench.open({ redis: { url: relay.url } });
    const ref = await accept(api, { id: 'x', mode: 'wait' });
    const held = api.wait(ref, { timeoutMs: 300, isCounted: true, signal: soon() });
    relay.cut();
    await expect(api.submit(submission())).rejects.toMatchObject({ kind: 'timeout' });
    expect(await held).toEqual({ kind: 'timed-out' });
    const worker = await workerOf(broker);
    await untilReady(broker, 'x');
    await worker.close();
    relay.mend();
    const signal = soon();
    // The first calls may still meet a connection that is given up.
    while ((await api.fetch(ref).catch(() => undefined))?.kind !== 'ready') {
      signal.throwIfAborted();
      await sleep(5);
    }
  });
});

describe('clocks of processes that are wrong', () => {
  it.each([-3_600_000, 3_600_000])(
    'F28 by %i ms: nothing expires and nothing is revived',
    async (skewMs) => {
      const clock = Date.now.bind(Date);
      jest.spyOn(Date, 'now').mockImplementation(() => clock() + skewMs);
      const skewed = await bench.open();
      const ref = await accept(skewed, { timeoutMs: 60_000 });
      expect(Math.abs(ref.remainingMs - 60_000)).toBeLessThan(1_000);
      expect(await skewed.fetch(ref)).toMatchObject({ kind: 'pending' });
      const sweeper = skewed.startSweeper();
      expect(await sweeper.sweep()).toBe(0);
      await sweeper.close();
      const begun = await skewed.dispatch.begin(ref, 'token');
      if (begun.kind !== 'run') throw new Error(`it is ${begun.kind}`);
      expect(Math.abs(begun.request.remainingMs - 60_000)).toBeLessThan(1_000);
      const short = await accept(skewed, { timeoutMs: 1 });
      await sleep(5);
      expect(await skewed.fetch(short)).toMatchObject({ outcome: { code: 'DEADLINE_EXCEEDED' } });
    },
  );
});
