import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { type RedisClusterServers, startRedisCluster } from '@llm-d/testing';
import { type Broker } from './broker.ts';
import { type LaneWorker } from './lane-worker.ts';
import { type Ticket } from './names.ts';
import { openBroker } from './open-broker.ts';
import { accept, answer, soon, submission } from './testing.ts';

const lanes = ['interactive', 'async', 'batch', 'overflow'].map((name) => ({ name }));
let cluster: RedisClusterServers;
let broker: Broker;
let workers: LaneWorker[] = [];

beforeAll(async () => {
  cluster = await startRedisCluster(['--appendonly', 'yes', '--appendfsync', 'no']);
  broker = openBroker({
    redis: { clusterUrls: cluster.urls },
    lanes,
    tenant: () => ({ concurrency: 1 }),
  });
  await broker.untilReady(soon());
}, 30_000);
afterAll(async () => {
  await Promise.all(workers.map((worker) => worker.close()));
  await broker.close();
  await cluster.close();
});

const keysOf = async (): Promise<string[][]> =>
  await Promise.all(
    cluster.nodes.map(async (node) => (await node.command('KEYS', '*')).match(/\S*ab:\S*/g) ?? []),
  );

describe('4.14 a cluster of three nodes (P20)', () => {
  it('runs every script of every request, whatever slot it falls into', async () => {
    // 60 requests over 4 lanes leave no node out.
    const refs = await Promise.all(
      Array.from({ length: 60 }, (_, index) =>
        accept(broker, {
          tenant: `team-${index % 7}`,
          idempotencyKey: `key-${index}`,
          lane: lanes[index % lanes.length]?.name ?? '',
          mode: 'wait',
          // Also past the size at which bytes go beside the scripts.
          body: Buffer.alloc(index % 3 === 0 ? 40_000 : 20, `${index} `),
        }),
      ),
    );
    const records = (await keysOf()).map(
      (keys) => keys.filter((key) => key.endsWith(':rec')).length,
    );
    expect(Math.min(...records)).toBeGreaterThan(0);
    const [first] = refs;
    if (first === undefined) throw new Error('expected one');
    const same = { tenant: 'team-0', idempotencyKey: 'key-0', lane: first.lane };
    const body = Buffer.alloc(40_000, '0 ');
    expect(await accept(broker, { ...same, body })).toMatchObject({ kind: 'live', id: first.id });
    expect(await broker.submit(submission({ ...same, body: Buffer.from('{}') }))).toMatchObject({
      kind: 'key-conflict',
    });
    const ends = await Promise.all(
      refs.map(async (ref, index) => {
        const { dispatch } = broker;
        expect(await dispatch.begin(ref, 'one')).toMatchObject({ kind: 'run' });
        expect((await dispatch.body(ref))?.length).toBe(index % 3 === 0 ? 40_000 : 20);
        const last = answer('x'.repeat(index % 2 === 0 ? 40_000 : 1), 503);
        expect(await dispatch.park(ref, 'one', { isRetry: true, last })).toBe('ok');
        const held = broker.wait(ref, { timeoutMs: 20_000, isCounted: true, signal: soon() });
        expect(await dispatch.begin(ref, 'two')).toMatchObject({ request: { retries: 1 } });
        expect(await dispatch.standings([{ ref, token: 'two' }])).toEqual(['running']);
        expect(await dispatch.finish(ref, 'two', answer(ref.id))).toBe('stored');
        const end = await held;
        if (end.kind === 'ready') await end.settle(false);
        await broker.confirmFetch(ref);
        return end;
      }),
    );
    expect(ends).toMatchObject(refs.map(({ id }) => ({ kind: 'ready', outcome: answer(id) })));
    for (const { name } of lanes) {
      expect((await broker.backlog(name)).open).toBe(0);
    }
    expect(await broker.cancel(first)).toBe('deleted');
  });

  it('has each lane on one node, and takes its tickets there', async () => {
    const done: string[] = [];
    const all = Promise.withResolvers<void>();
    workers = await Promise.all(
      lanes.map(({ name }) =>
        broker.openLaneWorker(
          {
            lane: name,
            handle: async (ticket) => {
              await broker.dispatch.finish(ticket, '', answer('{}'));
              // Those of the first test end here as well: their requests are done.
              if (ticket.tenant === 'tickets' && done.push(ticket.id) === lanes.length * 3) {
                all.resolve();
              }
              return { kind: 'done' };
            },
          },
          soon(),
        ),
      ),
    );
    for (const { name } of lanes) {
      for (const id of ['1', '2', '3']) {
        await accept(broker, { tenant: 'tickets', lane: name, id: `${name}-${id}` });
      }
    }
    await all.promise;
    expect(done).toHaveLength(lanes.length * 3);
    const nodesOf = (await keysOf()).map((keys) => [
      ...new Set(keys.flatMap((key) => /^\{ab:([a-z]+)\}/.exec(key)?.[1] ?? [])),
    ]);
    expect(nodesOf.flat().sort()).toEqual(lanes.map(({ name }) => name).sort());
    await Promise.all(workers.splice(0).map((worker) => worker.close()));
  });

  it('sweeps, leads, counts quota, cancels and reads gates', async () => {
    const ref = await accept(broker, { lane: 'batch', tenant: 'sweep' });
    expect(await broker.lanesInUse()).toEqual(lanes.map(({ name }) => name));
    expect(await broker.dispatch.gateBudget('batch')).toBe(1);
    await using lease = await broker.dispatch.acquireQuota('sweep');
    const over = await broker.dispatch.acquireQuota('sweep');
    expect([lease.classification, over.classification]).toEqual(['reserved', 'overflow']);
    const told = Promise.withResolvers<void>();
    const stop = broker.dispatch.onCancel(({ id }) => id === ref.id && told.resolve());
    const sweeper = broker.startSweeper();
    expect(await sweeper.sweep()).toBe(0);
    expect(sweeper.isLeader).toBe(true);
    await sweeper.close();
    expect(await broker.cancel(ref)).toBe('queued');
    await told.promise;
    stop();
  });

  it('looks at every node: one that evicts stops readiness', async () => {
    expect(broker.health().isReady).toBe(true);
    await cluster.nodes[1]?.command('CONFIG', 'SET', 'maxmemory-policy', 'allkeys-lru');
    const signal = soon();
    while (broker.health().isReady) {
      signal.throwIfAborted();
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    expect(broker.health().problems).toHaveLength(1);
    await cluster.nodes[1]?.command('CONFIG', 'SET', 'maxmemory-policy', 'noeviction');
    await broker.untilReady(soon());
  });

  it('outlives a node that dies and comes back, with its worker (P16 to P19)', async () => {
    const taken: string[] = [];
    let tell: (id: string) => void = () => undefined;
    const handle = async (ticket: Ticket) => {
      await broker.dispatch.finish(ticket, '', answer('{}'));
      taken.push(ticket.id);
      tell(ticket.id);
      return { kind: 'done' } as const;
    };
    workers = await Promise.all(
      lanes.map(({ name }) => broker.openLaneWorker({ lane: name, handle }, soon())),
    );
    const taking = async (suffix: string): Promise<void> => {
      const ids = new Set(lanes.map(({ name }) => `${name}-${suffix}`));
      const { promise, resolve } = Promise.withResolvers<void>();
      tell = (id) => {
        ids.delete(id);
        if (ids.size === 0) resolve();
      };
      for (const { name } of lanes) {
        await accept(broker, { tenant: 'outage', lane: name, id: `${name}-${suffix}` });
      }
      await promise;
    };
    await taking('before');
    const [node] = cluster.nodes;
    await node?.kill();
    // Some tenant's records lie on the node that is gone.
    const submitted = await Promise.allSettled(
      Array.from({ length: 12 }, (_, index) =>
        broker.submit(submission({ tenant: `lost-${index}`, lane: 'batch' })),
      ),
    );
    const failures = submitted.flatMap((end) =>
      end.status === 'rejected' ? [String(end.reason)] : [],
    );
    expect(failures.length).toBeGreaterThan(0);
    expect(failures.filter((text) => !text.startsWith('BrokerUnavailableError'))).toEqual([]);
    await node?.restart();
    const signal = soon();
    for (const each of cluster.nodes) {
      while (!(await each.command('CLUSTER', 'INFO')).includes('cluster_state:ok'))
        signal.throwIfAborted();
    }
    await broker.untilReady(soon());
    await taking('after');
    await Promise.all(workers.splice(0).map((worker) => worker.close()));
  });
});
