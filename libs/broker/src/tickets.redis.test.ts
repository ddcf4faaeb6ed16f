import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { allocateSlots } from './allocate-slots.ts';
import { type Broker } from './broker.ts';
import { jobIdOf, laneAnchorKey } from './keys.ts';
import { fairDueMs, priorityOf } from './lane-queues.ts';
import { type LaneWorker, type LaneWorkerOptions, type TicketEnd } from './lane-worker.ts';
import { accept, answer, type BrokerBench, brokerBench, soon } from './testing.ts';

let bench: BrokerBench;
let broker: Broker;
const workers: LaneWorker[] = [];

beforeAll(async () => {
  bench = await brokerBench();
});
afterAll(() => bench.close());
beforeEach(async () => {
  await bench.reset();
  broker = await bench.open({ lanes: [{ name: 'a' }, { name: 'fair', order: 'fair-edf' }] });
});
afterEach(async () => {
  await Promise.all(workers.splice(0).map((worker) => worker.close()));
});

const done: TicketEnd = { kind: 'done' };

async function work(options: Partial<LaneWorkerOptions> & Pick<LaneWorkerOptions, 'handle'>) {
  const worker = await broker.openLaneWorker({ lane: 'a', concurrency: 1, ...options }, soon());
  workers.push(worker);
  return worker;
}

/** Runs what is in a lane, one after the other unless told otherwise, and resolves with the order of ids. */
async function drain(count: number, lane = 'a', concurrency = 1): Promise<string[]> {
  const order: string[] = [];
  const { promise, resolve } = Promise.withResolvers<void>();
  await work({
    ...{ lane, concurrency },
    handle: async (ticket) => {
      order.push(ticket.id);
      await broker.dispatch.finish(ticket, '', answer('{}'));
      if (order.length === count) resolve();
      return done;
    },
  });
  await promise;
  return order;
}

describe('4.5 order', () => {
  it('runs by deadline in slots of a second, first come first inside one (R2, I8)', async () => {
    for (const [id, timeoutMs] of [
      ...([
        ['late-1', 90_000],
        ['soon-1', 5_000],
        ['late-2', 90_000],
        ['soon-2', 5_000],
      ] as const),
      ...([
        ['mid', 40_000],
        ['late-3', 90_000],
        ['soon-3', 5_000],
      ] as const),
    ]) {
      await accept(broker, { id, timeoutMs });
    }
    const order = await drain(7);
    // Deadlines of one slot: the few milliseconds between the calls may fall into the next second.
    expect(order.map((id) => id.slice(0, 3))).toEqual([
      'soo',
      'soo',
      'soo',
      'mid',
      'lat',
      'lat',
      'lat',
    ]);
    expect(order.filter((id) => id.startsWith('late'))).toEqual(['late-1', 'late-2', 'late-3']);
    expect(order.filter((id) => id.startsWith('soon'))).toEqual(['soon-1', 'soon-2', 'soon-3']);
  });

  it('keeps 400 equal ones in the order they came', async () => {
    const ids = Array.from({ length: 400 }, (_, index) => `n-${index}`);
    for (const id of ids) {
      await accept(broker, { id, timeoutMs: 3_600_000 });
    }
    expect(await drain(ids.length)).toEqual(ids);
  });

  it("2.5, R10: in a fair lane one tenant's many do not stand before another's first", async () => {
    for (let index = 0; index < 200; index += 1) {
      await accept(broker, { lane: 'fair', id: `big-${index}`, tenant: 'big', timeoutMs: 600_000 });
    }
    for (let index = 0; index < 3; index += 1) {
      await accept(broker, {
        lane: 'fair',
        id: `small-${index}`,
        tenant: 'small',
        timeoutMs: 600_000,
      });
    }
    const order = await drain(203, 'fair');
    // 20 quanta of 50 ms are one slot, and filling takes a moment.
    expect(order.indexOf('small-2')).toBeLessThan(150);
    expect(order.filter((id) => id.startsWith('big'))).toEqual(
      Array.from({ length: 200 }, (_, index) => `big-${index}`),
    );
  });

  it('never has a priority of 0, which overtakes (P29), nor one out of range', () => {
    expect(priorityOf(0, 5_000)).toBe(1);
    expect(priorityOf(5_000, 5_000)).toBe(1);
    expect(priorityOf(65_999, 5_000)).toBe(61);
    expect(priorityOf(1e15, 0)).toBe(2_097_151);
  });

  it('orders fairly by open requests and weight, never after the deadline', () => {
    expect(fairDueMs(100_000, 1_000, 20, 1)).toBe(2_000);
    expect(fairDueMs(100_000, 1_000, 20, 2)).toBe(1_500);
    expect(fairDueMs(1_500, 1_000, 10_000, 1)).toBe(1_500);
  });

  it('moves the anchor of an empty lane after 6 h, and keeps it while something waits', async () => {
    const hours = (count: number): number => Date.now() - count * 3_600_000;
    await bench.redis.hset(laneAnchorKey('a'), 'anchor', hours(7));
    await accept(broker);
    expect(Number(await bench.redis.hget(laneAnchorKey('a'), 'anchor'))).toBeGreaterThan(hours(1));
    const old = hours(8);
    await bench.redis.hset(laneAnchorKey('a'), 'anchor', old);
    await accept(await bench.open());
    expect(Number(await bench.redis.hget(laneAnchorKey('a'), 'anchor'))).toBe(old);
  });
});

describe('4.5 slots of a process', () => {
  it.each([
    { slots: 8, demand: [0, 0, 0], shares: [6, 1, 1] },
    { slots: 8, demand: [100, 100, 0], shares: [6, 1, 1] },
    { slots: 8, demand: [3, 100, 0], shares: [3, 4, 1] },
    { slots: 2, demand: [9, 9, 9], shares: [1, 1, 0] },
  ])('$slots slots for $demand: $shares', ({ slots, demand, shares }) => {
    const lanes = demand.map((backlog, index) => ({ lane: `${index}`, backlog, running: 0 }));
    expect([...allocateSlots(lanes, slots).values()]).toEqual(shares);
  });

  it('counts what runs', () => {
    const lanes = [
      { lane: 'a', backlog: 0, running: 3 },
      { lane: 'b', backlog: 9, running: 0 },
    ];
    expect(Object.fromEntries(allocateSlots(lanes, 8))).toEqual({ a: 3, b: 5 });
  });
});

describe('4.7 a worker of a lane', () => {
  it('leaves nothing of a finished ticket but its lane (P34), and caps the stream of events (P5, P6)', async () => {
    for (let part = 0; part < 15; part += 1) {
      await Promise.all(Array.from({ length: 100 }, () => accept(broker)));
    }
    await drain(1_500, 'a', 50);
    await workers[0]?.untilIdle(soon());
    await workers[0]?.close();
    const left = (await bench.redis.keys('{ab:a}*')).map((key) => key.replace('{ab:a}:', ''));
    const ofLane = ['a:meta', 'a:id', 'a:events', 'a:pc', 'a:marker', 'a:stalled-check', 'edf'];
    const metrics = ['a:metrics:completed', 'a:metrics:completed:data'];
    expect(left.filter((key) => ![...ofLane, ...metrics].includes(key))).toEqual([]);
    expect(await bench.redis.xlen('{ab:a}:a:events')).toBeLessThan(1_500);
    expect(await bench.redis.hget('{ab:a}:a:meta', 'opts.maxLenEvents')).toBe('1000');
    expect(await broker.backlog('a')).toEqual({ waiting: 0, active: 0, delayed: 0, open: 0 });
  });

  it('delay: comes back after the pause, at its place, without counting an attempt (R1)', async () => {
    await accept(broker, { id: 'x' });
    const starts: number[] = [];
    const { promise, resolve } = Promise.withResolvers<void>();
    await work({
      handle: (ticket) => {
        starts.push(performance.now());
        if (starts.length < 8) return Promise.resolve({ kind: 'delay', delayMs: 60 });
        resolve();
        return broker.dispatch.finish(ticket, '', answer('{}')).then(() => done);
      },
    });
    await promise;
    const [first = 0, second = 0] = starts;
    expect(second - first).toBeGreaterThanOrEqual(55);
  });

  it('return: another worker takes it in milliseconds (4.13)', async () => {
    const ref = await accept(broker, { id: 'x' });
    const givenBack = Promise.withResolvers<number>();
    const taken = Promise.withResolvers<number>();
    const first = await work({
      handle: () => {
        first.pause();
        givenBack.resolve(performance.now());
        return Promise.resolve({ kind: 'return' });
      },
    });
    const givenBackAt = await givenBack.promise;
    await work({
      handle: async () => {
        taken.resolve(performance.now());
        await broker.dispatch.finish(ref, '', answer('{}'));
        return done;
      },
    });
    // A lost lock would take 15 s at least.
    expect((await taken.promise) - givenBackAt).toBeLessThan(2_000);
  });

  it('more concurrency takes effect at once (4.5, trap)', async () => {
    for (const id of ['a', 'b', 'c', 'd']) await accept(broker, { id });
    const end = new AbortController();
    const all = Promise.withResolvers<void>();
    const worker = await work({
      handle: async () => {
        if (worker.running === 4) all.resolve();
        await new Promise((resolve) => end.signal.addEventListener('abort', resolve));
        return done;
      },
    });
    while (worker.running < 1) await new Promise((resolve) => setTimeout(resolve, 5));
    worker.setConcurrency(4);
    await all.promise;
    expect(worker.running).toBe(4);
    end.abort();
    await worker.untilIdle(soon());
  });

  it('a handler that throws something else fails with a text, and is tried again (4.8)', async () => {
    const ref = await accept(broker);
    let starts = 0;
    const { promise, resolve } = Promise.withResolvers<void>();
    await work({
      handle: async () => {
        starts += 1;
        // eslint-disable-next-line @typescript-eslint/prefer-promise-reject-errors -- what a foreign handler may do
        if (starts === 1) return await Promise.reject('text');
        await broker.dispatch.finish(ref, '', answer('{}'));
        resolve();
        return done;
      },
    });
    await promise;
    expect(await broker.fetch(ref)).toMatchObject({ kind: 'ready' });
  });

  it('aborts a ticket with a reason that is an error (P23)', async () => {
    const ref = await accept(broker);
    const reason = new Error('cancelled');
    const seen = Promise.withResolvers<unknown>();
    const started = Promise.withResolvers<void>();
    const worker = await work({
      handle: async (_ticket, signal) => {
        started.resolve();
        await new Promise((resolve) => signal.addEventListener('abort', resolve));
        seen.resolve(signal.reason);
        return done;
      },
    });
    await started.promise;
    expect(worker.abort({ ...ref, id: 'other' }, reason)).toBe(false);
    expect(worker.abort(ref, reason)).toBe(true);
    expect(await seen.promise).toBe(reason);
  });

  it('a worker that dies again and again: INFERENCE_ERROR (P11, P13), and failed tickets do not pile up (P30)', async () => {
    const ref = await accept(broker);
    const failed = '{ab:a}:a:failed';
    for (let n = 1; n <= 1_100; n += 1) {
      void bench.redis.hset(`{ab:a}:a:old-${n}`, 'data', '{}');
      void bench.redis.zadd(failed, Date.now() - n, `old-${n}`);
    }
    // As BullMQ leaves it after the last stall that it allows.
    await bench.redis.hset(
      `{ab:a}:a:${jobIdOf(ref)}`,
      'defa',
      'job stalled more than allowable limit',
    );
    const ended = broker.wait(ref, { timeoutMs: 5_000, isCounted: false, signal: soon() });
    await work({ handle: () => Promise.reject(new Error('must not run')) });
    const outcome = { kind: 'error', code: 'INFERENCE_ERROR' };
    expect(await ended).toMatchObject({ kind: 'ready', outcome });
    expect(await bench.redis.zcard(failed)).toBe(1_000);
    expect(await bench.redis.keys('{ab:a}:a:old-*')).toHaveLength(999);
  });

  it('keeps the order over a pause (P28)', async () => {
    const order: string[] = [];
    const { promise, resolve } = Promise.withResolvers<void>();
    const worker = await work({
      concurrency: 1,
      handle: async (ticket) => {
        await broker.dispatch.finish(ticket, '', answer('{}'));
        if (order.push(ticket.id) === 3) resolve();
        return done;
      },
    });
    worker.pause();
    await accept(broker, { id: 'late', timeoutMs: 60_000 });
    await accept(broker, { id: 'soon', timeoutMs: 20_000 });
    await accept(broker, { id: 'mid', timeoutMs: 40_000 });
    worker.resume();
    await promise;
    expect(order).toEqual(['soon', 'mid', 'late']);
  });

  it('ignores a job that somebody else put into the queue', async () => {
    const { Queue } = await import('bullmq');
    const queue = new Queue('a', {
      prefix: '{ab:a}',
      connection: bench.redis,
      skipMetasUpdate: true,
    });
    await queue.add('x', {}, { jobId: 'strange', removeOnComplete: true });
    await accept(broker, { id: 'x' });
    expect(await drain(1)).toEqual(['x']);
    await queue.close();
  });
});

describe('2.2 quota', () => {
  const limited = () => bench.open({ tenant: () => ({ concurrency: 1 }) });

  it('reserved up to the limit, overflow above, reserved again after a release (C22 to C24)', async () => {
    const limiting = await limited();
    const first = await limiting.dispatch.acquireQuota('t');
    const second = await limiting.dispatch.acquireQuota('t');
    expect([first.classification, second.classification]).toEqual(['reserved', 'overflow']);
    expect((await limiting.dispatch.acquireQuota('other')).classification).toBe('reserved');
    await second.release();
    expect((await limiting.dispatch.acquireQuota('t')).classification).toBe('overflow');
    await first.release();
    await first.release();
    expect((await limiting.dispatch.acquireQuota('t')).classification).toBe('reserved');
  });

  it('no more than the limit when many ask at once', async () => {
    const limiting = await bench.open({ tenant: () => ({ concurrency: 3 }) });
    const asked = Array.from({ length: 5 }, () => limiting.dispatch.acquireQuota('t'));
    const leases = await Promise.all(asked);
    const held = leases.filter(({ classification }) => classification === 'reserved');
    expect(held).toHaveLength(3);
    await Promise.all(held.map((lease) => lease.release()));
    expect(await bench.redis.keys('ab:quota:*')).toEqual([]);
  });

  it('no limit: reserved, and no counter (C25)', async () => {
    expect(await broker.dispatch.acquireQuota('t')).toMatchObject({ classification: 'reserved' });
    expect(await bench.redis.keys('ab:quota:*')).toEqual([]);
  });

  it('what a process held that died is free when its lease ends (R7, I6)', async () => {
    const limiting = await limited();
    await limiting.dispatch.acquireQuota('t');
    const [key = ''] = await bench.redis.keys('ab:quota:*');
    expect(await bench.redis.pttl(key)).toBeLessThanOrEqual(30_000);
    const [token = ''] = await bench.redis.zrange(key, 0, '-1');
    await bench.redis.zadd(key, Date.now() - 1, token);
    expect((await limiting.dispatch.acquireQuota('t')).classification).toBe('reserved');
  });
});

describe('2.2 quota as upstream counts it (`compatCounters`)', () => {
  it('is a counter that expires, shared with whoever counts so too', async () => {
    const compatCounters = { attribute: 'userid', windowSeconds: 300 };
    const tenant = () => ({ concurrency: 2 });
    const counting = await bench.open({ tenant, compatCounters });
    const key = 'quota:userid:t';
    // Somebody else's place.
    await bench.redis.set(key, 1);
    const first = await counting.dispatch.acquireQuota('t');
    const second = await counting.dispatch.acquireQuota('t');
    expect([first.classification, second.classification]).toEqual(['reserved', 'overflow']);
    expect(await bench.redis.get(key)).toBe('2');
    expect(await bench.redis.ttl(key)).toBeGreaterThan(290);
    await second.release();
    await first.release();
    await first.release();
    expect(await bench.redis.get(key)).toBe('1');
    expect(await bench.redis.keys('ab:quota:*')).toEqual([]);
  });
});

describe('lanes', () => {
  it('one that left the configuration is still in use while it has requests (R11)', async () => {
    const ref = await accept(broker, { lane: 'fair' });
    const later = await bench.open();
    expect(await later.lanesInUse()).toEqual(['a', 'fair']);
    await later.dispatch.finish(ref, '', answer('{}'));
    expect(await later.lanesInUse()).toEqual(['a']);
  });

  it.each([
    { value: undefined, budget: 1 },
    { value: '0.5', budget: 0.5 },
    { value: '0', budget: 0 },
    { value: '7', budget: 1 },
    { value: 'half', budget: 1 },
  ])('3.3 an operator lets $value through: $budget', async ({ value, budget }) => {
    if (value !== undefined) await bench.redis.set('ab:gate:a', value);
    expect(await broker.dispatch.gateBudget('a')).toBe(budget);
  });
});
