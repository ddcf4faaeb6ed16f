import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { type Broker } from './broker.ts';
import { recordKeys, tenantPart } from './keys.ts';
import { type RequestName } from './names.ts';
import { accept, answer, type BrokerBench, brokerBench } from './testing.ts';

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

/** What a call sends to Redis, with the name of its request taken out. */
async function commandsOf({ tenant, id }: RequestName, call: () => Promise<unknown>) {
  const sent: string[] = [];
  const watching = bench.redis.duplicate();
  const monitor = await watching.monitor();
  const isOver = new Promise<void>((resolve) => {
    monitor.on('monitor', (_time: string, words: string[]) => {
      const line = words.join(' ');
      if (line === 'echo over') resolve();
      else if (line.includes(id)) {
        sent.push(line.replaceAll(id, 'ID').replaceAll(tenantPart(tenant), 'TENANT'));
      }
    });
  });
  await call();
  await bench.redis.echo('over');
  await isOver;
  monitor.disconnect();
  watching.disconnect();
  return sent;
}

describe('1.3 ids that a tenant does not have', () => {
  it('cost the same commands, whether they never were, are foreign, expired or deleted', async () => {
    const mine = await accept(broker, { tenant: 'team-a', id: 'result-of-a' });
    await broker.dispatch.finish(mine, '', answer('x'.repeat(100_000)));
    const expired = await accept(broker, { tenant: 'team-b', id: 'expired' });
    await bench.redis.del(...recordKeys(expired));
    const deleted = await accept(broker, { tenant: 'team-b', id: 'deleted' });
    await broker.cancel(deleted);
    const ended = await accept(broker, { tenant: 'team-b', id: 'deleted-result' });
    await broker.dispatch.finish(ended, '', answer('{}'));
    await broker.cancel(ended);
    const names = ['never-was', mine.id, expired.id, deleted.id, ended.id].map((id) => ({
      tenant: 'team-b',
      id,
    }));
    const fetches: string[][] = [];
    const deletions: string[][] = [];
    for (const name of names) {
      fetches.push(
        await commandsOf(name, async () => {
          expect(await broker.fetch(name)).toEqual({ kind: 'unknown' });
        }),
      );
      deletions.push(
        await commandsOf(name, async () => {
          expect(await broker.cancel(name)).toBe('none');
        }),
      );
    }
    expect(fetches[0]).toEqual([
      'hmget ab:{TENANT~ID}:rec s g d x rs rc rm rct',
      'get ab:{TENANT~ID}:res',
    ]);
    // The script of a deletion, and the one look that it takes.
    expect(deletions[0]?.map((line) => line.split(' ')[0]?.toLowerCase())).toEqual([
      'evalsha',
      'hmget',
    ]);
    for (const one of fetches) expect(one).toEqual(fetches[0]);
    for (const one of deletions) expect(one).toEqual(deletions[0]);
    expect(await broker.fetch(mine)).toMatchObject({ kind: 'ready' });
  });
});

describe('4.17 delete_active: detach', () => {
  it('lets one run that runs and keeps its result, and ends one that waits', async () => {
    const detaching = await bench.open({ deleteActive: 'detach' });
    const [running, waiting] = [await accept(detaching), await accept(detaching)];
    await detaching.dispatch.begin(running, 'token');
    expect(await detaching.cancel(running)).toBe('kept');
    expect(await detaching.fetch(running)).toMatchObject({ kind: 'pending', state: 'active' });
    expect(await detaching.dispatch.standings([{ ref: running, token: 'token' }])).toEqual([
      'running',
    ]);
    expect(await detaching.dispatch.finish(running, 'token', answer('{}'))).toBe('stored');
    expect(await detaching.fetch(running)).toMatchObject({ kind: 'ready' });
    expect(await detaching.cancel(running)).toBe('deleted');
    expect(await detaching.cancel(waiting)).toBe('queued');
    expect(await detaching.fetch(waiting)).toEqual({ kind: 'unknown' });
  });
});
