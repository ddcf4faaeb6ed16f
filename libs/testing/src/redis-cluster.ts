import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { type RedisServer, startRedis } from './redis.ts';

/** Three masters that share the slots; they stop with `close` or at the end of an `await using`. */
export interface RedisClusterServers extends AsyncDisposable {
  readonly nodes: readonly RedisServer[];
  readonly urls: readonly string[];
  close(): Promise<void>;
}

const size = 3;
const formingMs = 15_000;

/** Starts a cluster without replicas on free ports; `args` are further options of each redis-server. */
export async function startRedisCluster(
  args: readonly string[] = [],
): Promise<RedisClusterServers> {
  const options = ['--cluster-enabled', 'yes', '--cluster-config-file', 'nodes.conf', ...args];
  const nodes: RedisServer[] = [];
  const close = async (): Promise<void> => {
    await Promise.all(nodes.map((node) => node.close()));
  };
  try {
    while (nodes.length < size) {
      nodes.push(await startRedis(options));
    }
    const addresses = nodes.map(({ url }) => new URL(url).host);
    await promisify(execFile)(
      'redis-cli',
      ['--cluster', 'create', ...addresses, '--cluster-replicas', '0', '--cluster-yes'],
      { timeout: formingMs },
    );
    // redis-cli ends when the nodes agree on the slots, and each says a moment later that it serves them.
    const signal = AbortSignal.timeout(formingMs);
    for (const node of nodes) {
      while (!(await node.command('CLUSTER', 'INFO')).includes('cluster_state:ok')) {
        signal.throwIfAborted();
      }
    }
  } catch (error) {
    await close();
    throw error;
  }
  return { nodes, urls: nodes.map(({ url }) => url), close, [Symbol.asyncDispose]: close };
}
