import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { type Broker } from './broker.ts';
import { jobIdOf, laneOpenKey, memberOf, recordKeys, sweeperKey, tenantOpenKey } from './keys.ts';
import { type RequestRef } from './names.ts';
import { accept, answer, type BrokerBench, brokerBench } from './testing.ts';

let bench: BrokerBench;
let broker: Broker;
const repairs: string[] = [];

beforeAll(async () => {
  bench = await brokerBench();
});
afterAll(() => bench.close());
beforeEach(async () => {
  await bench.reset();
  repairs.length = 0;
  broker = await bench.open({ observer: { onRepair: (kind) => void repairs.push(kind) } });
});

async function sweep(): Promise<number> {
  const sweeper = broker.startSweeper();
  try {
    return await sweeper.sweep();
  } finally {
    await sweeper.close();
  }
}

const setRecord = (ref: RequestRef, field: string, value: string | number) =>
  bench.redis.hset(recordKeys(ref)[0], field, value);

/** As if it had been admitted 20 s ago: younger ones are left alone. */
async function makeOld(ref: RequestRef): Promise<void> {
  await setRecord(ref, 'c', Date.now() - 20_000);
}

async function makeOverdue(ref: RequestRef, ms: number): Promise<void> {
  const deadline = Date.now() - ms;
  await setRecord(ref, 'd', deadline);
  await bench.redis.zadd(laneOpenKey('a'), deadline, memberOf(ref));
}

describe('4.15 sweeper', () => {
  it('does nothing where nothing is wrong', async () => {
    const ref = await accept(broker);
    await makeOld(ref);
    expect(await sweep()).toBe(0);
    expect(await broker.backlog('a')).toMatchObject({ waiting: 1, open: 1 });
  });

  it.each(['missing', 'terminal', 'of another generation'])(
    'takes an entry whose record is %s out of both open sets (I5)',
    async (what) => {
      const ref = await accept(broker);
      if (what === 'missing') await bench.redis.del(recordKeys(ref)[0]);
      if (what === 'terminal') await setRecord(ref, 's', 'done');
      if (what === 'of another generation') await setRecord(ref, 'g', '00000000');
      expect(await sweep()).toBe(1);
      expect(repairs).toEqual(['closed-entry']);
      expect(await bench.redis.exists(laneOpenKey('a'), tenantOpenKey('team-a'))).toBe(0);
    },
  );

  it('ends one that is 2 s past its deadline, with its ticket (I1)', async () => {
    const ref = await accept(broker);
    await makeOverdue(ref, 2_500);
    expect(await sweep()).toBe(1);
    expect(repairs).toEqual(['expired']);
    expect(await bench.redis.hget(recordKeys(ref)[0], 'rc')).toBe('DEADLINE_EXCEEDED');
    expect(await broker.backlog('a')).toMatchObject({ waiting: 0, open: 0 });
  });

  it('ends it with the last answer of a model server if there was one', async () => {
    const ref = await accept(broker);
    await broker.dispatch.begin(ref, 't');
    await broker.dispatch.park(ref, 't', { isRetry: true, last: answer('busy', 429) });
    await makeOverdue(ref, 2_500);
    await sweep();
    expect(await broker.fetch(ref)).toMatchObject({ kind: 'ready', outcome: answer('busy', 429) });
  });

  it('leaves one to its readers that is 1 s past its deadline', async () => {
    await makeOverdue(await accept(broker), 1_000);
    expect(await sweep()).toBe(0);
  });

  it('adds a ticket that was lost, after 10 s (F2, F32)', async () => {
    const ref = await accept(broker);
    await bench.redis.del('{ab:a}:a:prioritized', `{ab:a}:a:${jobIdOf(ref)}`);
    expect(await sweep()).toBe(0);
    await makeOld(ref);
    expect(await sweep()).toBe(1);
    expect(repairs).toEqual(['ticket-added']);
    expect((await broker.backlog('a')).waiting).toBe(1);
    expect(await sweep()).toBe(0);
  });

  it('ends one whose ticket failed: INFERENCE_ERROR', async () => {
    const ref = await accept(broker);
    await makeOld(ref);
    await bench.redis.del('{ab:a}:a:prioritized');
    await bench.redis.zadd('{ab:a}:a:failed', Date.now(), jobIdOf(ref));
    expect(await sweep()).toBe(1);
    expect(repairs).toEqual(['failed-ticket']);
    expect(await broker.fetch(ref)).toMatchObject({ outcome: { code: 'INFERENCE_ERROR' } });
  });

  it('ends one whose body is lost: INFERENCE_ERROR `body lost`', async () => {
    const ref = await accept(broker);
    await makeOld(ref);
    await bench.redis.del(recordKeys(ref)[1]);
    expect(await sweep()).toBe(1);
    expect(repairs).toEqual(['lost-body']);
    const outcome = { kind: 'error', code: 'INFERENCE_ERROR', message: 'body lost' };
    expect(await broker.fetch(ref)).toMatchObject({ outcome });
  });

  it('goes through a long lane, and finds what is wrong at its end', async () => {
    let last: RequestRef | undefined;
    for (let part = 0; part < 11; part += 1) {
      const refs = await Promise.all(Array.from({ length: 100 }, () => accept(broker)));
      last = refs.at(-1);
    }
    if (last === undefined) throw new Error('expected one');
    await bench.redis.zadd(laneOpenKey('a'), Date.now() + 1e9, memberOf(last));
    await setRecord(last, 's', 'done');
    const sweeper = broker.startSweeper();
    let turns = 0;
    while (repairs.length === 0 && turns < 3) {
      await sweeper.sweep();
      turns += 1;
    }
    await sweeper.close();
    expect(repairs).toEqual(['closed-entry']);
  });

  it('one process leads; another takes over when it leaves or dies', async () => {
    const first = broker.startSweeper();
    const second = (await bench.open()).startSweeper();
    await first.sweep();
    await second.sweep();
    expect([first.isLeader, second.isLeader]).toEqual([true, false]);
    expect(await bench.redis.pttl(sweeperKey)).toBeGreaterThan(9_000);
    await first.close();
    await second.sweep();
    expect([first.isLeader, second.isLeader]).toEqual([false, true]);
    // What an expired lead looks like.
    await bench.redis.del(sweeperKey);
    const third = (await bench.open()).startSweeper();
    await third.sweep();
    expect(third.isLeader).toBe(true);
    await second.close();
    expect(await bench.redis.exists(sweeperKey)).toBe(1);
    await third.close();
  });
});
