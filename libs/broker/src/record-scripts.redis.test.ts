import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { type Broker } from './broker.ts';
import { jobIdOf, laneOpenKey, memberOf, recordKeys, tenantOpenKey } from './keys.ts';
import { type RequestRef } from './names.ts';
import { accept, answer, type BrokerBench, brokerBench, submission } from './testing.ts';

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

const record = (ref: RequestRef): Promise<Record<string, string>> =>
  bench.redis.hgetall(recordKeys(ref)[0]);
const exists = (key: string): Promise<number> => bench.redis.exists(key);
const tickets = async (lane = 'a'): Promise<number> => (await broker.backlog(lane)).waiting;

/** Moves the deadline into the past, as waiting would. */
async function makeOverdue(ref: RequestRef): Promise<void> {
  await bench.redis.hset(recordKeys(ref)[0], 'd', Date.now() - 10_000);
}

/** Marks it as its last waiter's leaving does. */
async function leave(ref: RequestRef): Promise<void> {
  const options = { timeoutMs: 10_000, isCounted: true, signal: AbortSignal.abort() };
  expect(await broker.wait(ref, options)).toEqual({ kind: 'left' });
}

describe('4.4 admit', () => {
  it('NEW: writes record and body in one slot with lives of their own, and a ticket of names only', async () => {
    const body = Buffer.from('{"model":"m","seed":9007199254740993}');
    const ref = await accept(broker, {
      body,
      traceparent: '00-1-2-01',
      forwardedHeaders: ['a', 'b'],
    });
    expect(ref).toMatchObject({ kind: 'new', lane: 'a', tenant: 'team-a' });
    expect(ref.remainingMs).toBe(60_000);
    const [rec, bodyKey] = recordKeys(ref);
    expect(rec).toBe(`ab:{dGVhbS1h~${ref.id}}:rec`);
    expect(await record(ref)).toMatchObject({
      ...{ s: 'queued', g: ref.generation, lane: 'a', tier: 'async', model: 'm', mode: 'enqueue' },
      ...{ path: '/v1/chat/completions', fh: '["a","b"]', tp: '00-1-2-01' },
    });
    expect(await bench.redis.getBuffer(bodyKey)).toEqual(body);
    expect(await bench.redis.pttl(bodyKey)).toBeGreaterThan(115_000);
    expect(await bench.redis.pttl(rec)).toBeGreaterThan(3_600_000);
    // The ticket says everything in its name, and is small.
    expect(await bench.redis.object('ENCODING', `{ab:a}:a:${jobIdOf(ref)}`)).toBe('listpack');
    expect(await bench.redis.zrange(laneOpenKey('a'), 0, '-1')).toEqual([memberOf(ref)]);
    expect(await bench.redis.zrange(tenantOpenKey('team-a'), 0, '-1')).toEqual([memberOf(ref)]);
  });

  it('LIVE: the same request while it is queued or runs (C38)', async () => {
    const ref = await accept(broker, { id: 'x' });
    expect(await accept(broker, { id: 'x' })).toMatchObject({
      kind: 'live',
      generation: ref.generation,
    });
    await broker.dispatch.begin(ref, 't');
    expect(await accept(broker, { id: 'x' })).toMatchObject({
      kind: 'live',
      generation: ref.generation,
    });
    expect(await tickets()).toBe(1);
  });

  it('LIVE: adds a ticket that was lost', async () => {
    const ref = await accept(broker, { id: 'x' });
    await bench.redis.del('{ab:a}:a:prioritized', `{ab:a}:a:${jobIdOf(ref)}`);
    expect(await tickets()).toBe(0);
    await accept(broker, { id: 'x' });
    expect(await tickets()).toBe(1);
  });

  it.each([
    { name: 'body', change: { body: Buffer.from('{}') } },
    { name: 'path', change: { path: '/v1/completions' } },
  ])(
    'CONFLICT: another $name under an id that is open, and under one that is done',
    async ({ change }) => {
      const ref = await accept(broker, { id: 'x' });
      const conflict = { kind: 'id-conflict', id: 'x' };
      expect(await broker.submit(submission({ id: 'x', ...change }))).toEqual(conflict);
      await broker.dispatch.finish(ref, '', answer('{}'));
      expect(await broker.submit(submission({ id: 'x', ...change }))).toEqual(conflict);
      expect(await tickets()).toBe(1);
    },
  );

  it('attaches to another body where the configuration says so', async () => {
    const lenient = await bench.open({ idConflict: 'attach' });
    await accept(lenient, { id: 'x' });
    expect(await accept(lenient, { id: 'x', body: Buffer.from('{}') })).toMatchObject({
      kind: 'live',
    });
  });

  it('REVIVED: takes the mark of a lost client away (C39)', async () => {
    const ref = await accept(broker, { id: 'x', mode: 'wait' });
    await leave(ref);
    expect(await record(ref)).toMatchObject({ s: 'queued', x: 'disconnect' });
    expect(await accept(broker, { id: 'x' })).toMatchObject({ kind: 'revived' });
    expect(await record(ref)).not.toHaveProperty('x');
    expect(await tickets()).toBe(1);
    expect(await broker.dispatch.begin(ref, 't')).toMatchObject({ kind: 'run' });
  });

  it('READY: any stored result is replayed, without a ticket (C41, C42)', async () => {
    const ref = await accept(broker, { id: 'x' });
    await broker.dispatch.finish(ref, '', answer('no', 500));
    expect(await accept(broker, { id: 'x' })).toMatchObject({ kind: 'ready' });
    expect(await bench.redis.zcard(laneOpenKey('a'))).toBe(0);
  });

  it('NEW: a stored CANCELLED runs again under a new generation (C40)', async () => {
    const ref = await accept(broker, { id: 'x', mode: 'wait' });
    await leave(ref);
    expect(await broker.dispatch.begin(ref, 't')).toEqual({ kind: 'done' });
    expect(await record(ref)).toMatchObject({ s: 'done', rc: 'CANCELLED' });
    const again = await accept(broker, { id: 'x' });
    expect(again.kind).toBe('new');
    expect(again.generation).not.toBe(ref.generation);
    expect(await record(again)).not.toHaveProperty('rc');
  });

  it('NEW: a deleted id runs again, and its old ticket does not', async () => {
    const ref = await accept(broker, { id: 'x' });
    await broker.cancel(ref);
    const again = await accept(broker, { id: 'x' });
    expect(again.kind).toBe('new');
    expect(await broker.dispatch.begin(ref, 't')).toEqual({ kind: 'gone' });
    expect(await broker.dispatch.begin(again, 't')).toMatchObject({ kind: 'run' });
  });

  it('NEW: codes and statuses of `rerunOnRetry` run again, others are replayed', async () => {
    const rerunning = await bench.open({ rerunOnRetry: ['GATE_DROPPED', '503'] });
    for (const [id, outcome, kind] of [
      ['a', { kind: 'error', code: 'GATE_DROPPED', message: '' }, 'new'],
      ['b', answer('', 503), 'new'],
      ['c', answer('', 502), 'ready'],
    ] as const) {
      const ref = await accept(rerunning, { id });
      await rerunning.dispatch.finish(ref, '', outcome);
      expect(await accept(rerunning, { id })).toMatchObject({ kind });
    }
  });

  it('two at the same instant: one NEW, one LIVE, one ticket (F27)', async () => {
    const both = await Promise.all([accept(broker, { id: 'x' }), accept(broker, { id: 'x' })]);
    expect(both.map(({ kind }) => kind).sort()).toEqual(['live', 'new']);
    expect(await tickets()).toBe(1);
  });

  it('keeps tenants apart', async () => {
    const ref = await accept(broker, { id: 'x' });
    expect(await accept(broker, { id: 'x', tenant: 'tëam-b' })).toMatchObject({ kind: 'new' });
    expect(await broker.fetch({ tenant: 'other', id: 'x' })).toEqual({ kind: 'unknown' });
    expect(await broker.cancel({ tenant: 'other', id: 'x' })).toBe('none');
    expect(await broker.fetch(ref)).toMatchObject({ kind: 'pending' });
  });
});

describe('4.4 begin', () => {
  it('RUN: claims it and answers what the dispatch needs', async () => {
    const ref = await accept(broker, { traceparent: '00-1-2-01', forwardedHeaders: ['a', 'b'] });
    const { tenant, id, generation } = ref;
    const begun = await broker.dispatch.begin(ref, 'token');
    expect(begun).toEqual({
      kind: 'run',
      request: {
        ...{ tenant, id, generation, lane: 'a', tier: 'async', model: 'm', mode: 'enqueue' },
        ...{ path: '/v1/chat/completions', contentType: 'application/json' },
        ...{ forwardedHeaders: ['a', 'b'], traceparent: '00-1-2-01', starts: 1, retries: 0 },
        ...{ remainingMs: expect.any(Number), ageMs: expect.any(Number) },
      },
    });
    expect(await record(ref)).toMatchObject({ s: 'active', o: 'token', a: '1' });
    expect(await broker.dispatch.body(ref)).toEqual(Buffer.from('{"model":"m"}'));
  });

  it.each(['no record', 'another generation', 'a tombstone'])('GONE: %s', async (what) => {
    const ref = await accept(broker);
    if (what === 'no record') await bench.redis.del(recordKeys(ref)[0]);
    if (what === 'a tombstone') await broker.cancel(ref);
    const asked = what === 'another generation' ? { ...ref, generation: '00000000' } : ref;
    expect(await broker.dispatch.begin(asked, 't')).toEqual({ kind: 'gone' });
  });

  it('DONE: never runs again once a result is stored (I3)', async () => {
    const ref = await accept(broker);
    await broker.dispatch.finish(ref, '', answer('{}'));
    expect(await broker.dispatch.begin(ref, 't')).toEqual({ kind: 'done' });
  });

  it('DONE: one past its deadline by the clock of Redis ends as DEADLINE_EXCEEDED', async () => {
    const ref = await accept(broker);
    await makeOverdue(ref);
    expect(await broker.dispatch.begin(ref, 't')).toEqual({ kind: 'done' });
    expect(await record(ref)).toMatchObject({ s: 'done', rc: 'DEADLINE_EXCEEDED' });
    expect(await bench.redis.zcard(laneOpenKey('a'))).toBe(0);
  });
});

describe('4.4 finish', () => {
  it('STORED: keeps the exact bytes and type once, without the body, for the result life', async () => {
    const ref = await accept(broker);
    const body = Buffer.from([0x64, 0x61, 0x74, 0x61, 0x00, 0xff]);
    const outcome = {
      kind: 'response',
      status: 200,
      contentType: 'text/event-stream',
      body,
    } as const;
    expect(await broker.dispatch.finish(ref, 't', outcome)).toBe('stored');
    expect(await broker.fetch(ref)).toMatchObject({ kind: 'ready', outcome });
    const [rec, bodyKey, res] = recordKeys(ref);
    expect(await exists(bodyKey)).toBe(0);
    for (const key of [rec, res]) {
      expect(await bench.redis.pttl(key)).toBeGreaterThan(3_590_000);
      expect(await bench.redis.pttl(key)).toBeLessThanOrEqual(3_600_000);
    }
    expect(await bench.redis.zcard(laneOpenKey('a'))).toBe(0);
    expect(await bench.redis.zcard(tenantOpenKey('team-a'))).toBe(0);
  });

  it('ALREADY: the first outcome stays (I2, F23), also against a later deadline', async () => {
    const ref = await accept(broker);
    await broker.dispatch.finish(ref, 'one', answer('first'));
    expect(await broker.dispatch.finish(ref, 'two', answer('second'))).toBe('already');
    await makeOverdue(ref);
    expect(await broker.fetch(ref)).toMatchObject({ outcome: answer('first') });
  });

  it('GONE: recreates nothing after a DELETE (F26)', async () => {
    const ref = await accept(broker);
    await broker.dispatch.begin(ref, 't');
    expect(await broker.cancel(ref)).toBe('active');
    expect(await broker.dispatch.finish(ref, 't', answer('late'))).toBe('gone');
    expect(await broker.fetch(ref)).toEqual({ kind: 'unknown' });
    expect(await exists(recordKeys(ref)[2])).toBe(0);
  });

  it('stores an error with its text and no body', async () => {
    const ref = await accept(broker);
    const outcome = { kind: 'error', code: 'INFERENCE_ERROR', message: 'worker crashed' } as const;
    await broker.dispatch.finish(ref, '', outcome);
    expect(await broker.fetch(ref)).toMatchObject({ kind: 'ready', outcome });
  });

  it('takes an empty answer without a type', async () => {
    const ref = await accept(broker);
    const outcome = { kind: 'response', status: 204, body: Buffer.alloc(0) } as const;
    await broker.dispatch.finish(ref, '', outcome);
    expect(await broker.fetch(ref)).toMatchObject({ outcome });
  });
});

describe('4.4 park', () => {
  it('OK: queues it again, and a retry counts', async () => {
    const ref = await accept(broker);
    await broker.dispatch.begin(ref, 'one');
    expect(await broker.dispatch.park(ref, 'one', { isRetry: false })).toBe('ok');
    expect(await record(ref)).toMatchObject({ s: 'queued' });
    await broker.dispatch.begin(ref, 'two');
    expect(await broker.dispatch.park(ref, 'two', { isRetry: true })).toBe('ok');
    const begun = await broker.dispatch.begin(ref, 'three');
    expect(begun).toMatchObject({ request: { starts: 3, retries: 1 } });
  });

  it('OK: the last answer becomes the outcome when the deadline comes first', async () => {
    const ref = await accept(broker);
    await broker.dispatch.begin(ref, 't');
    await broker.dispatch.park(ref, 't', { isRetry: true, last: answer('busy', 503) });
    expect(await broker.fetch(ref)).toMatchObject({ kind: 'pending' });
    await makeOverdue(ref);
    expect(await broker.fetch(ref)).toMatchObject({ kind: 'ready', outcome: answer('busy', 503) });
  });

  it('GONE: fences a stale worker whose request another one has begun', async () => {
    const ref = await accept(broker);
    await broker.dispatch.begin(ref, 'stale');
    await broker.dispatch.begin(ref, 'fresh');
    expect(await broker.dispatch.park(ref, 'stale', { isRetry: true })).toBe('gone');
    expect(await record(ref)).toMatchObject({ s: 'active', o: 'fresh' });
    expect(
      await broker.dispatch.standings([
        { ref, token: 'stale' },
        { ref, token: 'fresh' },
      ]),
    ).toEqual(['gone', 'running']);
  });

  it('DONE and GONE', async () => {
    const done = await accept(broker);
    await broker.dispatch.begin(done, 't');
    await broker.dispatch.finish(done, 't', answer('{}'));
    expect(await broker.dispatch.park(done, 't', { isRetry: true })).toBe('done');
    const gone = await accept(broker);
    await broker.cancel(gone);
    expect(await broker.dispatch.park(gone, 't', { isRetry: true })).toBe('gone');
    expect(
      await broker.dispatch.standings([
        { ref: done, token: 't' },
        { ref: gone, token: 't' },
      ]),
    ).toEqual(['done', 'gone']);
  });
});

describe('4.4 cancel', () => {
  it('1.9 queued: the ticket goes and a tombstone of 60 s stays (C34)', async () => {
    const ref = await accept(broker);
    expect(await broker.cancel(ref)).toBe('queued');
    expect(await broker.fetch(ref)).toEqual({ kind: 'unknown' });
    expect(await tickets()).toBe(0);
    expect(await bench.redis.pttl(recordKeys(ref)[0])).toBeLessThanOrEqual(60_000);
    expect(await exists(recordKeys(ref)[1])).toBe(0);
    expect(await bench.redis.zcard(tenantOpenKey('team-a'))).toBe(0);
    expect(await broker.cancel(ref)).toBe('none');
  });

  it('1.9 ready: the result goes (C31), of its own tenant only (C30)', async () => {
    const ref = await accept(broker);
    await broker.dispatch.finish(ref, '', answer('{}'));
    expect(await broker.cancel({ ...ref, tenant: 'other' })).toBe('none');
    expect(await broker.cancel(ref)).toBe('deleted');
    expect(await bench.redis.exists(...recordKeys(ref))).toBe(0);
  });

  it('1.9 unknown: nothing', async () => {
    expect(await broker.cancel({ tenant: 't', id: 'never' })).toBe('none');
    expect(await bench.redis.keys('*never*')).toEqual([]);
  });
});

describe('4.4 touch', () => {
  it('a confirmed fetch starts the grace, every one anew (C28, C36)', async () => {
    const graceful = await bench.open({ lifetimes: { fetchGraceMs: 5_000 } });
    const ref = await accept(graceful);
    await graceful.dispatch.finish(ref, '', answer('{}'));
    await graceful.confirmFetch(ref);
    const [rec, , res] = recordKeys(ref);
    for (const key of [rec, res]) {
      expect(await bench.redis.pttl(key)).toBeGreaterThan(4_000);
      expect(await bench.redis.pttl(key)).toBeLessThanOrEqual(5_000);
    }
    await bench.redis.pexpire(rec, 1_000);
    await graceful.confirmFetch(ref);
    expect(await bench.redis.pttl(rec)).toBeGreaterThan(4_000);
  });

  it('with a grace of 0 it deletes (C36)', async () => {
    const strict = await bench.open({ lifetimes: { fetchGraceMs: 0 } });
    const ref = await accept(strict);
    await strict.dispatch.finish(ref, '', answer('{}'));
    await strict.confirmFetch(ref);
    expect(await strict.fetch(ref)).toEqual({ kind: 'unknown' });
    expect(await bench.redis.exists(...recordKeys(ref))).toBe(0);
  });

  it('leaves one without an outcome alone', async () => {
    const ref = await accept(broker);
    await broker.confirmFetch(ref);
    expect(await bench.redis.pttl(recordKeys(ref)[0])).toBeGreaterThan(3_600_000);
  });
});

describe('fetch', () => {
  it('answers pending, and ends one past its deadline without any worker (1.7)', async () => {
    const ref = await accept(broker);
    expect(await broker.fetch(ref)).toMatchObject({ kind: 'pending', state: 'queued' });
    await broker.dispatch.begin(ref, 't');
    expect(await broker.fetch(ref)).toMatchObject({ kind: 'pending', state: 'active' });
    await makeOverdue(ref);
    const outcome = { kind: 'error', code: 'DEADLINE_EXCEEDED' };
    expect(await broker.fetch(ref)).toMatchObject({ kind: 'ready', outcome });
    expect(await record(ref)).toMatchObject({ s: 'done' });
  });

  it('says that one is cancelled whose last waiter left, before any worker saw it', async () => {
    const ref = await accept(broker, { mode: 'wait' });
    await leave(ref);
    expect(await broker.fetch(ref)).toMatchObject({
      kind: 'ready',
      outcome: { code: 'CANCELLED' },
    });
  });
});
