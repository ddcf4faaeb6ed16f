import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { type Broker } from './broker.ts';
import { BrokerUnavailableError } from './errors.ts';
import { openBroker } from './open-broker.ts';
import { accept, answer, type BrokerBench, brokerBench, soon, submission } from './testing.ts';

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

const name = { tenant: 'team-a', id: 'x' };
const ref = { ...name, generation: '00000000' };

/** How a call fails, and after how many milliseconds. */
async function failure(work: () => Promise<unknown>) {
  const startedAt = performance.now();
  try {
    await work();
  } catch (error) {
    if (error instanceof BrokerUnavailableError) {
      return { error, tookMs: performance.now() - startedAt };
    }
    throw error;
  }
  throw new Error('expected a failure');
}

const calls: { what: string; call: (target: Broker) => Promise<unknown> }[] = [
  { what: 'submit', call: (target) => target.submit(submission(name)) },
  { what: 'fetch', call: (target) => target.fetch(name) },
  { what: 'confirmFetch', call: (target) => target.confirmFetch(ref) },
  { what: 'cancel', call: (target) => target.cancel(name) },
  { what: 'begin', call: (target) => target.dispatch.begin(ref, 't') },
  { what: 'body', call: (target) => target.dispatch.body(ref) },
  { what: 'finish', call: (target) => target.dispatch.finish(ref, 't', answer('{}')) },
  { what: 'park', call: (target) => target.dispatch.park(ref, 't', { isRetry: true }) },
  { what: 'standings', call: (target) => target.dispatch.standings([{ ref, token: 't' }]) },
  { what: 'backlog', call: (target) => target.backlog('a') },
];

describe('4.13 the end of a process', () => {
  it('closes within its limit while Redis is gone (P21)', async () => {
    const worker = await broker.openLaneWorker(
      // BullMQ leaves a timer behind that is a second longer than the interval.
      { lane: 'a', handle: () => Promise.resolve({ kind: 'done' }), stalledIntervalMs: 500 },
      soon(),
    );
    await bench.server.kill();
    const startedAt = performance.now();
    await worker.close();
    await broker.close();
    expect(performance.now() - startedAt).toBeLessThan(3_500);
    await bench.server.restart();
  });
});

describe('4.10 Redis is down', () => {
  it('F10 every call fails in < 5 ms, also before the first connection (P22), and works again after', async () => {
    await using neverConnected = openBroker({
      redis: { url: 'redis://127.0.0.1:1' },
      lanes: [{ name: 'a' }],
    });
    await bench.server.kill();
    const signal = soon();
    while (broker.health().isReady) {
      signal.throwIfAborted();
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    for (const { what, call } of calls) {
      for (const target of [broker, neverConnected]) {
        // The first of a kind compiles; what counts is that nothing waits.
        const attempts = [await failure(() => call(target)), await failure(() => call(target))];
        expect(attempts.map(({ error }) => error.kind)).toEqual(['unreachable', 'unreachable']);
        expect({ what, isFast: Math.min(...attempts.map(({ tookMs }) => tookMs)) < 5 }).toEqual({
          what,
          isFast: true,
        });
      }
    }
    await bench.server.restart();
    await broker.untilReady(soon());
    expect(await accept(broker, name)).toMatchObject({ kind: 'new' });
  });

  it('names the id of a submission, and neither keys nor values', async () => {
    await bench.server.kill();
    try {
      const { error } = await failure(() =>
        broker.submit(submission({ ...name, model: 'secret' })),
      );
      expect(error).toMatchObject({ id: 'x', retryAfterSeconds: 1 });
      expect(`${error.message}${error.stack}`).not.toMatch(/secret|team-a|ab:/);
    } finally {
      await bench.server.restart();
    }
  });

  it('quota fails open: reserved, not enforced, told (C37)', async () => {
    const errors: Error[] = [];
    const observer = { onError: (error: Error) => void errors.push(error) };
    const limited = await bench.open({ tenant: () => ({ concurrency: 1 }), observer });
    await bench.server.kill();
    try {
      const lease = await limited.dispatch.acquireQuota('t');
      expect(lease).toMatchObject({ classification: 'reserved', isEnforced: false });
      expect(errors.some((error) => error.name === 'BrokerUnavailableError')).toBe(true);
      await lease.release();
    } finally {
      await bench.server.restart();
    }
  });
});

describe('4.10 Redis is frozen', () => {
  it('every call fails in 2.1 s; what was submitted may have been taken, and a repetition finds it (F18)', async () => {
    // The queue's own start is over.
    await accept(broker);
    bench.server.freeze();
    const failures = await Promise.all(calls.map(({ call }) => failure(() => call(broker))));
    bench.server.thaw();
    for (const { error, tookMs } of failures) {
      expect(error.kind).toBe('timeout');
      expect(tookMs).toBeGreaterThan(1_900);
      // The limit, and what a timer on a busy machine is late.
      expect(tookMs).toBeLessThan(2_100 + 150);
    }
    await broker.untilReady(soon());
    expect(await broker.submit(submission(name))).toMatchObject({ id: 'x' });
    expect((await broker.backlog('a')).open).toBe(2);
  });
});

describe('4.9 Redis is full', () => {
  it('F13 fails with `full`; a worker pauses instead of spinning (P7), and goes on when there is room', async () => {
    await accept(broker, { id: 'waiting' });
    await bench.redis.config('SET', 'maxmemory', 1);
    const { error } = await failure(() => broker.submit(submission(name)));
    expect(error).toMatchObject({ kind: 'full', retryAfterSeconds: 5 });
    let errors = 0;
    const handled: string[] = [];
    const both = Promise.withResolvers<void>();
    const worker = await broker.openLaneWorker(
      {
        lane: 'a',
        onError: () => (errors += 1),
        handle: async (ticket) => {
          await broker.dispatch.finish(ticket, '', answer('{}'));
          if (handled.push(ticket.id) === 2) both.resolve();
          return { kind: 'done' };
        },
      },
      soon(),
    );
    const signal = soon();
    while (!worker.isPaused) {
      signal.throwIfAborted();
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    await bench.redis.config('SET', 'maxmemory', 0);
    const room = soon();
    while (handled.length === 0) {
      room.throwIfAborted();
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    await accept(broker, { id: 'later' });
    await both.promise;
    expect(handled).toEqual(['waiting', 'later']);
    expect(errors).toBeLessThan(10);
    await worker.close();
  });
});

describe('4.14 a fail-over', () => {
  it('a master that becomes a replica is not ready, and is left for where its address leads then', async () => {
    const clientIds = async (): Promise<string[]> => {
      const list = String(await bench.redis.call('CLIENT', 'LIST'));
      return (list.match(/id=\d+ .*name=ab-records/g) ?? []).map(
        (line) => line.split(' ')[0] ?? '',
      );
    };
    const before = await clientIds();
    await bench.redis.call('REPLICAOF', '127.0.0.1', '1');
    const { error } = await failure(() => broker.submit(submission(name)));
    expect(error.message).toMatch(/READONLY|MASTERDOWN/);
    const signal = soon();
    while (broker.health().isReady) {
      signal.throwIfAborted();
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    await bench.redis.call('REPLICAOF', 'NO', 'ONE');
    await broker.untilReady(soon());
    expect(await accept(broker, name)).toMatchObject({ kind: 'new' });
    const after = await clientIds();
    expect(after).toHaveLength(1);
    expect(after).not.toEqual(before);
  });
});

describe('4.10 a worker and an outage', () => {
  it('takes the next ticket after Redis was killed and came back (P15 to P17)', async () => {
    const taken: string[] = [];
    let tell: () => void = () => undefined;
    const worker = await broker.openLaneWorker(
      {
        lane: 'a',
        handle: async (ticket) => {
          taken.push(ticket.id);
          await broker.dispatch.finish(ticket, '', answer('{}'));
          tell();
          return { kind: 'done' };
        },
      },
      soon(),
    );
    const taking = async (id: string): Promise<void> => {
      const { promise, resolve } = Promise.withResolvers<void>();
      tell = resolve;
      await accept(broker, { id });
      await promise;
    };
    await taking('before');
    await bench.server.kill();
    await bench.server.restart();
    await broker.untilReady(soon());
    await taking('after');
    expect(taken).toEqual(['before', 'after']);
    await worker.close();
  });
});
