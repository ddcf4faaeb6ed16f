import { openBroker } from '@llm-d/broker';
import { type RedisServer } from '@llm-d/testing/redis';
import { startRedisCluster } from '@llm-d/testing/redis-cluster';
import { printTable } from './print-table.ts';

const laneCounts = [1, 3, 6, 12];
const tenants = 20;
const concurrency = 128;
const readyMs = 10_000;
const timeoutMs = 6 * 3_600_000;
const slots = 16_384;
const body = Buffer.from(JSON.stringify({ model: 'bench', prompt: 'x'.repeat(2_000) }));

/** CPU seconds that a server has used. */
async function cpuSeconds(node: RedisServer): Promise<number> {
  const info = await node.command('INFO', 'cpu');
  return ['used_cpu_sys', 'used_cpu_user']
    .map((name) => Number(new RegExp(`^${name}:([\\d.]+)`, 'm').exec(info)?.[1]))
    .reduce((sum, value) => sum + value, 0);
}

/** Names of lanes whose queues lie on the nodes in turn, as somebody chooses them who wants it so. */
async function laneNames(nodes: readonly RedisServer[], count: number): Promise<string[]> {
  const [node] = nodes;
  const names: string[] = [];
  for (let index = 0; names.length < count; index++) {
    const slot = Number(
      (await node?.command('CLUSTER', 'KEYSLOT', `{ab:lane-${index}}`))?.replace(/\D/g, ''),
    );
    const owner = Math.floor((slot * nodes.length) / slots);
    if (owner === names.length % nodes.length) names.push(`lane-${index}`);
  }
  return names;
}

/**
 * Admissions into one to twelve lanes of a Redis cluster of three nodes. The machine may have fewer cores than there are
 * servers: what the cluster can take is told by the CPU time of its busiest node, whatever the clock says.
 */
export async function scaleLanes(count: number): Promise<void> {
  const rows: string[][] = [];
  let alone = NaN;
  for (const lanes of laneCounts) {
    await using cluster = await startRedisCluster(['--appendonly', 'yes']);
    const names = await laneNames(cluster.nodes, lanes);
    const most = Number.MAX_SAFE_INTEGER;
    await using broker = openBroker({
      redis: { clusterUrls: cluster.urls },
      lanes: names.map((name) => ({ name, maxBacklog: most })),
      tenant: () => ({ maxBacklog: most }),
    });
    await broker.untilReady(AbortSignal.timeout(readyMs));
    let made = 0;
    const submit = async (): Promise<void> => {
      const answer = await broker.submit({
        ...{ tenant: `tenant-${made % tenants}`, lane: names[made++ % lanes] ?? '', body },
        ...{ mode: 'enqueue', tier: 'async', model: 'bench', path: '/v1/completions' },
        ...{ contentType: 'application/json', forwardedHeaders: [], timeoutMs },
      });
      if (answer.kind !== 'new') throw new Error(`not accepted: ${answer.kind}`);
    };
    const admit = async (wanted: number): Promise<void> => {
      let left = wanted;
      const loop = async (): Promise<void> => {
        while (left-- > 0) await submit();
      };
      await Promise.all(Array.from({ length: concurrency }, loop));
    };
    await admit(count / 10);
    const before = await Promise.all(cluster.nodes.map(cpuSeconds));
    const startedAt = performance.now();
    await admit(count);
    const seconds = (performance.now() - startedAt) / 1_000;
    const after = await Promise.all(cluster.nodes.map(cpuSeconds));
    const used = after.map((value, index) => value - (before[index] ?? 0));
    const ofBusiest = count / Math.max(...used);
    if (lanes === 1) alone = ofBusiest;
    rows.push([
      ...[String(lanes), (count / seconds).toFixed(0), ofBusiest.toFixed(0)],
      ...[(ofBusiest / alone).toFixed(2), used.map((value) => value.toFixed(1)).join(' ')],
    ]);
  }
  printTable(
    ['lanes', 'admissions/s', 'per CPU s of the busiest node', 'beside one', 'CPU s of each node'],
    rows,
  );
}
