import { expect, it } from '@jest/globals';
import { startRedisCluster } from '@llm-d/testing';
import { queueRedis, Rig, until } from './testing.ts';

it('runs requests of several lanes on a Redis cluster of three nodes, and shows them on its board (P20)', async () => {
  await using cluster = await startRedisCluster(queueRedis);
  const lanes = ['lane-a', 'lane-b', 'lane-c'].map((name) => ({ name }));
  const password = 'secret';
  await using rig = await Rig.open({
    cluster: cluster.urls,
    config: { lanes, board: { password }, tenants: { 'team-1': { concurrency: 1 } } },
  });
  const refs = await Promise.all(
    Array.from({ length: 12 }, (_, n) =>
      rig.submit({ tenant: `team-${n % 4}`, lane: lanes[n % 3]?.name ?? '' }),
    ),
  );
  for (const ref of refs) expect(await rig.outcome(ref)).toMatchObject({ status: 200 });
  expect(rig.upstream.calls).toHaveLength(refs.length);
  const authorization = `Basic ${Buffer.from(`admin:${password}`).toString('base64')}`;
  const board = await rig.get('/admin/queues/api/queues', { authorization });
  expect(board.status).toBe(200);
  expect(await board.json()).toMatchObject({
    queues: lanes.map(({ name }) => ({ name, readOnlyMode: true, counts: { failed: 0 } })),
  });
  const backlog = 'llm_d_async_broker_lane_backlog{lane="lane-c",state="waiting"}';
  await until(async () => (await rig.metric(backlog)) === 0);
  await cluster.nodes[2]?.command('CONFIG', 'SET', 'maxmemory-policy', 'allkeys-lru');
  await until(async () => (await rig.get('/readyz')).status === 503);
}, 40_000);
