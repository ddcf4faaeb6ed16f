import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type ChildSpec } from './child-group.ts';
import { type FoundRedis } from './find-redis.ts';

/** The queue of a stack: requests that wait in Redis, and the app that runs them. */
export interface QueueSettings {
  readonly redis: FoundRedis;
  /** Keys that are laid over the app's generated configuration. */
  readonly config?: Readonly<Record<string, unknown>>;
  /** Further parameters of the coordinator's step. */
  readonly step?: Readonly<Record<string, unknown>>;
}

/** What the queue adds to a stack. */
export interface QueueParts {
  readonly url: string;
  readonly redisUrl: string;
  readonly children: readonly ChildSpec[];
  /** The coordinator's first step. */
  readonly step: { readonly type: string; readonly params: Readonly<Record<string, unknown>> };
}

/** Ports that `queueParts` takes. */
export const queuePorts = 2;

const host = '127.0.0.1';

/** Plans the queue: a Redis that keeps what it was given, unless one runs, and the app, which calls `dispatchUrl`. */
export function queueParts(
  { redis, config, step }: QueueSettings,
  stack: {
    readonly directory: string;
    readonly script: string;
    readonly dispatchUrl: string;
    readonly ports: readonly [number, number];
  },
): QueueParts {
  const [port, redisPort] = stack.ports;
  const url = `http://${host}:${port}`;
  const redisUrl = 'url' in redis ? redis.url : `redis://${host}:${redisPort}`;
  const file = join(stack.directory, 'async-broker.yaml');
  const generated = {
    listen: `${host}:${port}`,
    redis: { url: redisUrl },
    dispatch: { address: stack.dispatchUrl },
    ...config,
  };
  // JSON is valid YAML.
  writeFileSync(file, `${JSON.stringify(generated, null, 2)}\n`);
  const app: ChildSpec = {
    name: 'async-broker',
    script: stack.script,
    args: ['--config', file],
    // Somebody else's Redis may be set up for other things, which the app then says in its log.
    readyUrl: 'url' in redis ? `${url}/healthz` : `${url}/readyz`,
  };
  const children: ChildSpec[] = [app];
  if ('program' in redis) children.push(redisChild(redis.program, redisPort, stack.directory));
  return {
    ...{ url, redisUrl, children },
    step: { type: 'async-broker', params: { redis_url: redisUrl, ...step } },
  };
}

function redisChild(program: string, port: number, directory: string): ChildSpec {
  const folder = join(directory, 'redis-queue');
  mkdirSync(folder, { recursive: true });
  return {
    name: 'redis-queue',
    program,
    args: [
      ...['--bind', host, '--port', String(port), '--dir', folder, '--save', ''],
      ...['--appendonly', 'yes', '--maxmemory', '256mb', '--maxmemory-policy', 'noeviction'],
    ],
    readyUrl: `tcp://${host}:${port}`,
  };
}
