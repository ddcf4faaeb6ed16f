import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { lifetimes } from './soak-form.ts';

/** What is left in Redis after a soak. */
export interface RedisRest {
  readonly faults: string[];
  readonly keys: number;
  readonly usedMb: number;
}

const drainMs = 15_000;
/** Marks of deleted requests live for a minute, leases of dead processes for half of one. */
const settleMs = 75_000;
/** Scripts, buffers of clients and the allocator explain this much. */
const maxGrowthMb = 6;

/** Checks I5 to I7: what is open, what is leased and what is kept. */
export async function auditRedis(
  url: string,
  { isSettled, baselineMb }: { readonly isSettled: boolean; readonly baselineMb: number },
): Promise<RedisRest> {
  const redis = new Redis(url);
  const faults: string[] = [];
  try {
    const open = await waitForZero(() => openEntries(redis), drainMs);
    if (open > 0) faults.push(`I5: ${open} entries are left in open sets`);
    if (isSettled) {
      const leases = await waitForZero(() => sizeOfSets(redis, 'ab:quota:*'), drainMs * 3);
      if (leases > 0) faults.push(`I6: ${leases} quota leases are left`);
      const kept = await waitForZero(
        () => countKeys(redis, ['ab:{*}:rec', 'ab:{*}:body', 'ab:{*}:res']),
        settleMs,
      );
      if (kept > 0) faults.push(`I7: ${kept} keys of requests outlive their lifetimes`);
    } else {
      const late = await lateLeases(redis);
      if (late > 0) faults.push(`I6: ${late} quota leases outlive their holder by more than 30 s`);
      const immortal = await keysWithoutEnd(redis);
      if (immortal.length > 0) {
        faults.push(`I7: ${immortal.length} keys of requests have no end, ${immortal[0] ?? ''}`);
      }
    }
    const usedMb = await usedMemoryMb(redis);
    if (isSettled && usedMb > baselineMb + maxGrowthMb) {
      faults.push(`I7: Redis holds ${usedMb.toFixed(1)} MB, ${baselineMb.toFixed(1)} MB before`);
    }
    return { faults, usedMb, keys: await redis.dbsize() };
  } finally {
    redis.disconnect();
  }
}

/** Memory of the data and what belongs to it. */
export async function usedMemoryMb(redis: Redis): Promise<number> {
  return Number(/^used_memory:(\d+)/m.exec(await redis.info('memory'))?.[1]) / 1_048_576;
}

async function openEntries(redis: Redis): Promise<number> {
  return (await sizeOfSets(redis, '{ab:*}:open')) + (await sizeOfSets(redis, 'ab:{*}:open'));
}

async function sizeOfSets(redis: Redis, pattern: string): Promise<number> {
  let sum = 0;
  for (const key of await keysOf(redis, pattern)) sum += await redis.zcard(key);
  return sum;
}

/** A lease is over 30 s after its holder renewed it last. */
async function lateLeases(redis: Redis): Promise<number> {
  const [seconds] = await redis.time();
  const latest = (Number(seconds) + 31) * 1_000;
  let sum = 0;
  for (const key of await keysOf(redis, 'ab:quota:*')) {
    sum += await redis.zcount(key, `(${latest}`, '+inf');
  }
  return sum;
}

async function countKeys(redis: Redis, patterns: readonly string[]): Promise<number> {
  let sum = 0;
  for (const pattern of patterns) sum += (await keysOf(redis, pattern)).length;
  return sum;
}

async function keysWithoutEnd(redis: Redis): Promise<string[]> {
  const keys = (
    await Promise.all(['rec', 'body', 'res', 'up:*'].map((end) => keysOf(redis, `ab:{*}:${end}`)))
  ).flat();
  const longestMs = Math.max(lifetimes.result, 60) * 1000 + 300_000;
  const found: string[] = [];
  for (const key of keys) {
    const leftMs = await redis.pttl(key);
    if (leftMs === -1 || leftMs > longestMs) found.push(`${key.slice(-5)}: ${leftMs} ms`);
  }
  return found;
}

async function keysOf(redis: Redis, pattern: string): Promise<string[]> {
  const keys: string[] = [];
  for await (const found of redis.scanStream({ match: pattern, count: 1_000 })) {
    keys.push(...(found as string[]));
  }
  return keys;
}

async function waitForZero(count: () => Promise<number>, limitMs: number): Promise<number> {
  const end = Date.now() + limitMs;
  for (;;) {
    const left = await count();
    if (left === 0 || Date.now() > end) return left;
    await sleep(250);
  }
}
