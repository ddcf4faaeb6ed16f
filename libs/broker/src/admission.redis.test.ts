import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { BrokerInputError } from './errors.ts';
import { idempotencyKey, recordKeys } from './keys.ts';
import { openBroker } from './open-broker.ts';
import { accept, answer, type BrokerBench, brokerBench, soon, submission } from './testing.ts';

let bench: BrokerBench;
beforeAll(async () => {
  bench = await brokerBench();
});
afterAll(() => bench.close());
beforeEach(async () => {
  await bench.reset();
  await bench.redis.config('SET', 'maxmemory', 0);
});

const isEmpty = async (): Promise<boolean> => {
  const keys = await bench.redis.keys('ab:*');
  return keys.every((key) => key === 'ab:lanes');
};

describe('4.9 limits', () => {
  it('lane backlog: refuses the next, still finds those that are in, and takes one when one ended', async () => {
    const broker = await bench.open({ lanes: [{ name: 'a', maxBacklog: 2 }, { name: 'b' }] });
    const first = await accept(broker, { id: 'x' });
    await accept(broker);
    const refused = await broker.submit(submission({ id: 'y' }));
    expect(refused).toEqual({
      kind: 'refused',
      reason: 'lane-backlog',
      id: 'y',
      retryAfterSeconds: 60,
    });
    expect(await bench.redis.exists(...recordKeys({ tenant: 'team-a', id: 'y' }))).toBe(0);
    expect(await accept(broker, { id: 'x' })).toMatchObject({ kind: 'live' });
    expect(await accept(broker, { lane: 'b' })).toMatchObject({ kind: 'new' });
    await broker.dispatch.finish(first, '', answer('{}'));
    expect(await accept(broker, { id: 'y' })).toMatchObject({ kind: 'new' });
  });

  it('tenant backlog: refuses one tenant and not another', async () => {
    const tenant = (name: string) => (name === 'team-a' ? { maxBacklog: 1 } : undefined);
    const broker = await bench.open({ tenant });
    await accept(broker);
    expect(await broker.submit(submission())).toMatchObject({ reason: 'tenant-backlog' });
    expect(await accept(broker, { tenant: 'team-b' })).toMatchObject({ kind: 'new' });
  });

  it('held waits: refuses a wait and takes an enqueue', async () => {
    const broker = await bench.open({ limits: { maxHeldWaits: 1 } });
    const ref = await accept(broker, { mode: 'wait' });
    const end = new AbortController();
    const options = { timeoutMs: 5_000, isCounted: true, signal: end.signal };
    const held = broker.wait(ref, options);
    expect(await broker.submit(submission({ mode: 'wait' }))).toMatchObject({
      reason: 'held-waits',
    });
    expect(await accept(broker)).toMatchObject({ kind: 'new' });
    end.abort();
    await held;
    expect(await accept(broker, { mode: 'wait' })).toMatchObject({ kind: 'new' });
  });

  it('body bytes in flight: refuses what would exceed them, and takes it later', async () => {
    const broker = await bench.open({ limits: { maxBodyBytesInFlight: 100 } });
    const body = Buffer.alloc(60, 'x');
    const results = await Promise.all([1, 2].map(() => broker.submit(submission({ body }))));
    expect(results).toMatchObject([{ kind: 'new' }, { kind: 'refused', reason: 'body-bytes' }]);
    expect(await accept(broker, { body })).toMatchObject({ kind: 'new' });
  });

  it('memory: admission stops at the ratio while what waits drains, and goes on below it', async () => {
    const broker = await bench.open();
    const ref = await accept(broker, { id: 'x' });
    await bench.redis.config('SET', 'maxmemory', 100_000_000);
    await bench.redis.setrange('ballast', 75_000_000, 'x');
    await expectEventually(() => broker.health().memoryRatio > 0.8);
    const refused = await broker.submit(submission({ id: 'y' }));
    expect(refused).toEqual({
      kind: 'refused',
      reason: 'redis-memory',
      id: 'y',
      retryAfterSeconds: 5,
    });
    expect(await accept(broker, { id: 'x' })).toMatchObject({ kind: 'live' });
    expect(await broker.dispatch.begin(ref, 't')).toMatchObject({ kind: 'run' });
    expect(await broker.dispatch.finish(ref, 't', answer('{}'))).toBe('stored');
    expect(await broker.fetch(ref)).toMatchObject({ kind: 'ready' });
    await bench.redis.del('ballast');
    await expectEventually(() => broker.health().memoryRatio < 0.8);
    expect(await accept(broker, { id: 'y' })).toMatchObject({ kind: 'new' });
  });
});

async function expectEventually(isSo: () => boolean): Promise<void> {
  const signal = soon();
  while (!isSo()) {
    signal.throwIfAborted();
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

describe('Idempotency-Key', () => {
  it('the same key and body give the same request, whatever id comes with them', async () => {
    const broker = await bench.open();
    const first = await accept(broker, { id: 'one', idempotencyKey: 'k' });
    const again = await accept(broker, { id: 'two', idempotencyKey: 'k' });
    expect(again).toMatchObject({ kind: 'live', id: 'one', generation: first.generation });
    await broker.dispatch.finish(first, '', answer('{}'));
    expect(await accept(broker, { idempotencyKey: 'k' })).toMatchObject({
      kind: 'ready',
      id: 'one',
    });
    expect(await broker.fetch({ tenant: 'team-a', id: 'two' })).toEqual({ kind: 'unknown' });
  });

  it('another body is a conflict of the key, and nothing is stored', async () => {
    const broker = await bench.open();
    const { id } = await accept(broker, { idempotencyKey: 'k' });
    const other = submission({ idempotencyKey: 'k', id: 'two', body: Buffer.from('{}') });
    expect(await broker.submit(other)).toEqual({ kind: 'key-conflict', id });
    expect(await broker.fetch({ tenant: 'team-a', id: 'two' })).toEqual({ kind: 'unknown' });
    expect((await broker.backlog('a')).open).toBe(1);
  });

  it('belongs to its tenant', async () => {
    const broker = await bench.open();
    const { id } = await accept(broker, { idempotencyKey: 'k' });
    const other = await accept(broker, {
      idempotencyKey: 'k',
      tenant: 'b',
      body: Buffer.from('{}'),
    });
    expect(other).toMatchObject({ kind: 'new' });
    expect(other.id).not.toBe(id);
  });

  it('is free again when its request was refused, or its id was another request', async () => {
    const broker = await bench.open({ lanes: [{ name: 'a', maxBacklog: 1 }] });
    await accept(broker, { id: 'x' });
    const refused = await broker.submit(submission({ idempotencyKey: 'k' }));
    expect(refused).toMatchObject({ kind: 'refused' });
    const conflict = { id: 'x', idempotencyKey: 'k', body: Buffer.from('{}') };
    expect(await broker.submit(submission(conflict))).toEqual({ kind: 'id-conflict', id: 'x' });
    expect(await bench.redis.exists(idempotencyKey('team-a', 'k'))).toBe(0);
  });

  it('two at the same instant: one request', async () => {
    const broker = await bench.open();
    const both = await Promise.all([1, 2].map(() => accept(broker, { idempotencyKey: 'k' })));
    expect(both.map(({ kind }) => kind).sort()).toEqual(['live', 'new']);
    expect(both[0]?.id).toBe(both[1]?.id);
  });

  it('lives as long as its request may', async () => {
    const broker = await bench.open();
    await accept(broker, { idempotencyKey: 'k' });
    const ttl = await bench.redis.pttl(idempotencyKey('team-a', 'k'));
    expect(ttl).toBeGreaterThan(60_000 + 3_600_000);
  });
});

describe('bad input', () => {
  it.each([
    {
      name: 'a tenant with a colon (C9)',
      change: { tenant: 'a:b' },
      text: 'tenant contains a colon',
    },
    { name: 'a bad id (C32)', change: { id: 'bad*id' }, text: 'id: expected' },
    { name: 'an unknown lane', change: { lane: 'nowhere' }, text: 'lane: not configured' },
    { name: 'no timeout', change: { timeoutMs: 0 }, text: 'timeoutMs' },
    { name: 'a timeout that is no integer', change: { timeoutMs: 1e300 }, text: 'timeoutMs' },
  ])('refuses $name and stores nothing', async ({ change, text }) => {
    const broker = await bench.open();
    const work = broker.submit(submission(change));
    await expect(work).rejects.toThrow(BrokerInputError);
    await expect(work).rejects.toThrow(text);
    expect(await isEmpty()).toBe(true);
  });

  it.each([
    { name: 'no lanes', options: { lanes: [] }, text: 'lanes: expected at least one' },
    { name: 'a bad lane', options: { lanes: [{ name: 'A' }] }, text: 'lanes: a name has' },
    {
      name: 'a lane twice',
      options: { lanes: [{ name: 'a' }, { name: 'a' }] },
      text: 'a stands twice',
    },
    {
      name: 'a result life over 7 d',
      options: { lifetimes: { resultMs: 1e12 } },
      text: 'result_ttl',
    },
    { name: 'a grace below 0', options: { lifetimes: { fetchGraceMs: -1 } }, text: 'fetch_grace' },
    {
      name: 'a ratio over 1',
      options: { limits: { maxMemoryRatio: 2 } },
      text: 'max_memory_ratio',
    },
    { name: 'no URL', options: { redis: { url: 'localhost' } }, text: 'redis: expected URLs' },
    {
      name: 'WAIT on a cluster',
      options: { redis: { clusterUrls: ['redis://a'] }, ackDurability: 'replica' as const },
      text: 'ack_durability',
    },
  ])('does not open with $name', ({ options, text }) => {
    const base = { redis: { url: bench.server.url }, lanes: [{ name: 'a' }] };
    expect(() => openBroker({ ...base, ...options })).toThrow(text);
  });

  it('takes every legal id that BullMQ would not, as P1 to P4 have them', async () => {
    const broker = await bench.open();
    const words = ['meta', 'active', 'wait', 'delayed', 'events', 'completed', 'stalled', 'failed'];
    const ids = [...words, 'id', 'prioritized', 'pc', 'marker', '-5', '123', '0', 'a'.repeat(128)];
    for (const id of ids) {
      expect(await accept(broker, { id })).toMatchObject({ kind: 'new', id });
    }
    expect((await broker.backlog('a')).waiting).toBe(ids.length);
  });

  it('4.6: a body of 64 MiB comes back byte for byte, and stays out of the ticket', async () => {
    const broker = await bench.open();
    const body = Buffer.alloc(64 * 1024 * 1024, '0123456789');
    const ref = await accept(broker, { body });
    expect((await broker.dispatch.body(ref))?.equals(body)).toBe(true);
    const key = `{ab:a}:a:r~dGVhbS1h~${ref.id}~${ref.generation}`;
    expect(JSON.stringify(await bench.redis.hgetall(key)).length).toBeLessThan(1_000);
  });
});

describe('ack_durability', () => {
  it('replica: not acknowledged without one, and the request can be found by its id', async () => {
    const broker = await bench.open({ ackDurability: 'replica' });
    await expect(broker.submit(submission({ id: 'x' }))).rejects.toMatchObject({
      name: 'BrokerUnavailableError',
      kind: 'timeout',
      id: 'x',
    });
    expect(await broker.fetch({ tenant: 'team-a', id: 'x' })).toMatchObject({ kind: 'pending' });
  });
});
