import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';

/** A Redis for the cache: one that runs, or a program that can be started. */
export type FoundRedis = { readonly url: string } | { readonly program: string };

const programs = ['redis-server', 'valkey-server'];

/** What this machine has: `REDIS_URL` wins over a server on the `PATH`; undefined when there is neither. */
export function findRedis(
  environment: Readonly<Record<string, string | undefined>>,
): FoundRedis | undefined {
  const { REDIS_URL: url, PATH: path = '' } = environment;
  if (url) return { url };
  for (const program of programs) {
    for (const folder of path.split(delimiter)) {
      const file = join(folder, program);
      if (folder !== '' && isExecutable(file)) return { program: file };
    }
  }
  return undefined;
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** Flags of a server that is a cache and nothing else: on loopback, bounded, forgetful. */
export const cacheFlags = (host: string, port: number): string[] => [
  ...['--bind', host, '--port', String(port), '--save', '', '--appendonly', 'no'],
  ...['--maxmemory', '128mb', '--maxmemory-policy', 'allkeys-lru'],
];
