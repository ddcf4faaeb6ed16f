import { type RedisClient } from './connect.ts';

/** What a server says of itself that matters to its users. */
export interface RedisServerFacts {
  readonly version: string;
  /** 0 = no limit. */
  readonly maxMemoryBytes: number;
  readonly usedMemoryBytes: number;
  /** For example `noeviction` or `allkeys-lru`. */
  readonly evictionPolicy: string;
  /** Whether an append-only file is written. */
  readonly writesAppendOnlyFile: boolean;
  /** `master` or `slave`. */
  readonly role: string;
}

/** Reads `INFO`, which servers without the command `CONFIG` answer as well; rejects as a command does. */
export async function readServerFacts(client: RedisClient): Promise<RedisServerFacts> {
  const lines = (await client.info()).split('\r\n');
  const value = (name: string): string =>
    lines.find((line) => line.startsWith(`${name}:`))?.slice(name.length + 1) ?? '';
  return {
    version: value('redis_version'),
    maxMemoryBytes: Number(value('maxmemory')),
    usedMemoryBytes: Number(value('used_memory')),
    evictionPolicy: value('maxmemory_policy'),
    writesAppendOnlyFile: value('aof_enabled') === '1',
    role: value('role'),
  };
}

/**
 * What is wrong with a server for a cache, each with what to change; empty when nothing is
 * (media-fetcher.md 6.7). One that also holds queues must never evict keys without expiry.
 */
export function cacheProblems(facts: RedisServerFacts, isShared = false): string[] {
  const { evictionPolicy, maxMemoryBytes, writesAppendOnlyFile } = facts;
  const wanted = isShared ? 'volatile' : 'allkeys';
  const isEvicting = [`${wanted}-lru`, `${wanted}-lfu`].includes(evictionPolicy);
  const problems: string[] = [];
  if (!isEvicting) {
    problems.push(
      `maxmemory-policy: expected ${wanted}-lru or ${wanted}-lfu, got ${evictionPolicy}`,
    );
  }
  if (maxMemoryBytes === 0) {
    problems.push('maxmemory: expected a limit, got none');
  }
  if (writesAppendOnlyFile && !isShared) {
    problems.push('appendonly: expected no, a cache needs no persistence, got yes');
  }
  return problems;
}
