import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { type IncomingHttpHeaders, type OutgoingHttpHeaders } from 'node:http';
import { type RedisServer, startRedis } from '@llm-d/testing';
import { type MediaFetcher } from '../media-fetcher.ts';
import { type MediaResult } from '../media-result.ts';
import { type MediaFetchOptions } from '../options.ts';
import {
  failureOf,
  gif,
  image,
  loopbackFetcher,
  never,
  type Origin,
  optionsWith,
  png,
  startOrigin,
} from '../testing.ts';
import { type CacheMode, type CacheStatus } from './cache-query.ts';
import { MediaCache } from './media-cache.ts';
import { MemoryTier } from './memory-tier.ts';
import { RedisTier } from './redis-tier.ts';

let server: RedisServer;
let origin: Origin;
let asked: IncomingHttpHeaders[] = [];
let answer: { status: number; headers: OutgoingHttpHeaders; body: Buffer };
let gate: Promise<unknown> = Promise.resolve();
let clock = Date.now();
const now = (): number => clock;
const open: { fetcher: MediaFetcher; cache: MediaCache }[] = [];

beforeAll(async () => {
  server = await startRedis();
  origin = await startOrigin((request, response) => {
    asked.push(request.headers);
    void gate.then(() => {
      const isSame =
        request.headers['if-none-match'] !== undefined &&
        request.headers['if-none-match'] === answer.headers['etag'];
      response.writeHead(isSame ? 304 : answer.status, answer.headers);
      response.end(isSame ? undefined : answer.body);
    });
  });
});
afterAll(async () => {
  await origin[Symbol.asyncDispose]();
  await server.close();
});
beforeEach(async () => {
  asked = [];
  clock = Date.now();
  gate = Promise.resolve();
  answer = { status: 200, headers: { 'cache-control': 'max-age=60' }, body: png };
  await server.command('FLUSHALL');
});
afterEach(async () => {
  await Promise.all(open.splice(0).map(({ fetcher }) => fetcher.close()));
});

interface Replica {
  readonly used: CacheStatus[];
  readonly tier: RedisTier | undefined;
  get(url?: string, mode?: CacheMode, changes?: Partial<MediaFetchOptions>): Promise<MediaResult>;
  /** Resolves when all that was fetched is stored. */
  settled(): Promise<void>;
}

/** One process with its own memory; with a URL it shares a Redis with others, which may take as long as a busy machine needs. */
async function replica(redisUrl?: string, controlTimeoutMs = 10_000): Promise<Replica> {
  const used: CacheStatus[] = [];
  const tier =
    redisUrl === undefined ? undefined : new RedisTier({ url: redisUrl, controlTimeoutMs, now });
  await tier?.ready(AbortSignal.timeout(4_000));
  const cache = new MediaCache({
    secret: 'cache-secret',
    memory: new MemoryTier({}, now),
    ...(tier && { shared: tier }),
    onUse: (status) => void used.push(status),
    now,
  });
  const fetcher = loopbackFetcher({ cache });
  open.push({ fetcher, cache });
  return {
    used,
    tier,
    get: (url = `${origin.base}/a`, cacheMode = 'default', changes = {}) =>
      fetcher.fetch(image(url), optionsWith({ cacheMode, ...changes }), never()),
    settled: () => cache.settled(),
  };
}

const kinds: readonly { name: string; start: () => Promise<Replica> }[] = [
  { name: 'memory', start: () => replica() },
  { name: 'memory and redis', start: () => replica(server.url) },
];

describe.each(kinds)('the cache in $name', ({ start }) => {
  it('[130] answers again without the origin until the copy is old', async () => {
    const one = await start();
    const first = await one.get();
    await one.settled();
    expect((await one.get()).bytes).toEqual(first.bytes);
    expect((await one.get()).contentType).toBe('image/png');
    expect(asked).toHaveLength(1);
    expect(one.used).toEqual(['miss', 'hit', 'hit']);
  });

  it('[130] asks with the validator when the copy is old, and keeps it after a 304', async () => {
    answer.headers = { etag: '"v1"', 'cache-control': 'max-age=5, must-revalidate' };
    const one = await start();
    await one.get();
    await one.settled();
    clock += 6_000;
    expect((await one.get()).bytes).toEqual(png);
    await one.settled();
    await one.get();
    expect(asked.map((headers) => headers['if-none-match'])).toEqual([undefined, '"v1"']);
    expect(one.used).toEqual(['miss', 'revalidated', 'hit']);
  });

  it('[130] takes what changed', async () => {
    answer.headers = { etag: '"v1"', 'cache-control': 'no-cache' };
    const one = await start();
    await one.get();
    await one.settled();
    answer = { ...answer, headers: { etag: '"v2"', 'cache-control': 'max-age=5' }, body: gif };
    expect((await one.get()).contentType).toBe('image/gif');
    await one.settled();
    expect((await one.get()).bytes).toEqual(gif);
    expect(one.used).toEqual(['miss', 'miss', 'hit']);
  });

  it.each(['no-store', 'private'])('[130] stores nothing that is %s', async (control) => {
    answer.headers = { 'cache-control': control };
    const one = await start();
    await one.get();
    await one.settled();
    await one.get();
    expect(asked).toHaveLength(2);
  });

  it('serves a copy that has just become old, and refreshes it behind that', async () => {
    answer.headers = { 'cache-control': 'max-age=5' };
    const one = await start();
    await one.get();
    await one.settled();
    clock += 20_000;
    answer.body = gif;
    expect((await one.get()).bytes).toEqual(png);
    await one.settled();
    expect((await one.get()).bytes).toEqual(gif);
    expect(one.used).toEqual(['miss', 'stale', 'hit']);
  });

  it('serves an old copy when the origin fails', async () => {
    answer.headers = { 'cache-control': 'max-age=5' };
    const one = await start();
    await one.get();
    await one.settled();
    clock += 50_000;
    answer.status = 503;
    expect((await one.get()).bytes).toEqual(png);
    await one.settled();
    const askedBefore = asked.length;
    expect((await one.get()).bytes).toEqual(png);
    expect(asked).toHaveLength(askedBefore);
    expect(one.used).toEqual(['miss', 'stale', 'stale']);
  });

  it('[140] remembers a 404 for a minute; reload goes out', async () => {
    answer.status = 404;
    const one = await start();
    const first = await failureOf(() => one.get());
    await one.settled();
    const second = await failureOf(() => one.get());
    expect(second).toMatchObject({ ...first, isRemembered: true, logDetail: expect.any(String) });
    expect(asked).toHaveLength(1);
    answer.status = 200;
    expect((await one.get(undefined, 'reload')).bytes).toEqual(png);
    await one.settled();
    expect((await one.get()).bytes).toEqual(png);
    expect(one.used).toEqual(['miss', 'negative', 'miss', 'hit']);
  });

  it('forgets a 404 after a minute', async () => {
    answer.status = 404;
    const one = await start();
    await failureOf(() => one.get());
    await one.settled();
    clock += 60_000;
    answer.status = 200;
    expect((await one.get()).bytes).toEqual(png);
  });

  it('lets a call with other limits try for itself', async () => {
    const one = await start();
    const small = { maxDownloadBytes: 10 };
    expect((await failureOf(() => one.get(undefined, 'default', small))).code).toBe(
      'media_too_large',
    );
    await one.settled();
    expect((await one.get()).bytes).toEqual(png);
    await one.settled();
    expect((await failureOf(() => one.get(undefined, 'default', small))).code).toBe(
      'media_too_large',
    );
    expect(asked).toHaveLength(2);
  });

  it('[132] tells URLs apart by the case of path and query, and not by the fragment', async () => {
    const one = await start();
    for (const path of ['/a?b', '/A?b', '/a?B', '/a?b#c']) {
      await one.get(origin.base + path);
      await one.settled();
    }
    expect(asked).toHaveLength(3);
  });

  it('uses nothing with no-store, and only what is there with only-if-cached', async () => {
    const one = await start();
    expect((await failureOf(() => one.get(undefined, 'only-if-cached'))).code).toBe(
      'media_not_cached',
    );
    await one.get(undefined, 'no-store');
    await one.settled();
    await one.get();
    await one.settled();
    expect(asked).toHaveLength(2);
    expect((await one.get(undefined, 'only-if-cached')).bytes).toEqual(png);
  });

  it('[91] downloads once for all who wait, and for the second when the first leaves', async () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    gate = promise;
    const one = await start();
    const { fetcher } = open.at(-1) ?? {};
    const leaving = new AbortController();
    const first = failureOf(() =>
      fetcher?.fetch(image(`${origin.base}/a`), optionsWith(), leaving.signal),
    );
    const second = one.get();
    leaving.abort();
    expect((await first).code).toBe('media_cancelled');
    resolve();
    expect((await second).bytes).toEqual(png);
    expect(asked).toHaveLength(1);
  });
});

describe('several processes with one Redis', () => {
  it('[136] ask the origin once for a hundred requests', async () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    gate = promise;
    const replicas = await Promise.all(Array.from({ length: 4 }, () => replica(server.url)));
    const results = Promise.all(
      replicas.flatMap((one) => Array.from({ length: 25 }, () => one.get())),
    );
    setTimeout(resolve, 100);
    for (const { bytes } of await results) {
      expect(bytes).toEqual(png);
    }
    expect(asked).toHaveLength(1);
  });

  it('[137] download for themselves when the holder of the lock was killed', async () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    gate = promise;
    const [gone, one] = [await replica(server.url), await replica(server.url)];
    const lost = failureOf(() => gone.get(undefined, 'default', { downloadTimeoutMs: 1_000 }));
    while (asked.length === 0) {
      await new Promise(setImmediate);
    }
    // What a killed process does: it neither stores nor releases.
    await gone.tier?.close();
    expect((await lost).code).toBe('media_timeout');
    const found = one.get();
    resolve();
    expect((await found).bytes).toEqual(png);
    expect(asked).toHaveLength(2);
  });

  it('[133] leave neither URL nor secret in Redis', async () => {
    const one = await replica(server.url);
    await one.get(`${origin.base}/folder/name.png?X-Amz-Signature=topsecret`);
    answer.status = 404;
    await failureOf(() => one.get(`${origin.base}/folder/missing.png?sig=topsecret`));
    await one.settled();
    const keys = (await server.command('KEYS', '*')).match(/mf1:\S+/g) ?? [];
    expect(keys).toHaveLength(3);
    const values = await Promise.all(keys.map((key) => server.command('GET', key)));
    expect([...keys, ...values].join(' ')).not.toMatch(/topsecret|folder|127\.0\.0\.1|\.png/);
  });

  it('[139] keep what is larger than the limit out of Redis', async () => {
    answer.body = Buffer.concat([png.subarray(0, 33), Buffer.alloc(6_000_000), png.subarray(-12)]);
    const one = await replica(server.url);
    expect((await one.get()).byteLength).toBe(answer.body.length);
    await one.settled();
    expect(await server.command('DBSIZE')).toBe(':0');
  });
});

describe('failure table: what Redis has lost', () => {
  it('bytes under an index are fetched again, without conditions', async () => {
    answer.headers = { etag: '"v1"', 'cache-control': 'max-age=60' };
    const one = await replica(server.url);
    await one.get();
    await one.settled();
    for (const key of (await server.command('KEYS', 'mf1:b:*')).match(/mf1:b:\S+/g) ?? []) {
      await server.command('DEL', key);
    }
    const other = await replica(server.url);
    expect((await other.get()).bytes).toEqual(png);
    await other.settled();
    expect(asked.map((headers) => headers['if-none-match'])).toEqual([undefined, undefined]);
    expect((await (await replica(server.url)).get()).bytes).toEqual(png);
    expect(asked).toHaveLength(2);
  });

  it('[138] bytes that somebody changed are fetched again', async () => {
    const one = await replica(server.url);
    await one.get();
    await one.settled();
    for (const key of (await server.command('KEYS', 'mf1:b:*')).match(/mf1:b:\S+/g) ?? []) {
      await server.command('SET', key, 'changed');
    }
    expect((await (await replica(server.url)).get()).bytes).toEqual(png);
    expect(asked).toHaveLength(2);
  });
});

describe('[135] Redis in trouble', () => {
  const trouble: readonly { name: string; make: (redis: RedisServer) => unknown }[] = [
    { name: 'gone', make: (redis) => redis.kill() },
    { name: 'frozen', make: (redis) => redis.freeze() },
    { name: 'full', make: (redis) => redis.fill() },
    { name: 'emptied', make: (redis) => redis.command('FLUSHALL') },
  ];

  it.each(trouble)('$name: every call succeeds within the time-out', async ({ make }) => {
    await using redis = await startRedis();
    const one = await replica(redis.url, 200);
    await one.get();
    await one.settled();
    await make(redis);
    for (const name of ['b', 'c']) {
      const startedAt = performance.now();
      expect((await one.get(`${origin.base}/${name}`)).bytes).toEqual(png);
      expect(performance.now() - startedAt).toBeLessThan(399); // less than two time-outs
    }
    answer.status = 404;
    expect((await failureOf(() => one.get(`${origin.base}/d`))).originStatus).toBe(404);
  });

  it('keys of another type: the call succeeds', async () => {
    const one = await replica(server.url);
    await one.get();
    await one.settled();
    for (const key of (await server.command('KEYS', '*')).match(/mf1:\S+/g) ?? []) {
      await server.command('DEL', key);
      await server.command('LPUSH', key, 'x');
    }
    expect((await (await replica(server.url)).get()).bytes).toEqual(png);
  });

  it('is used again when it is back', async () => {
    await using redis = await startRedis();
    const one = await replica(redis.url);
    await redis.kill();
    await one.get();
    await one.settled();
    await redis.restart();
    await one.tier?.ready(AbortSignal.timeout(4_000));
    clock += 10_000;
    await one.get(`${origin.base}/b`);
    await one.settled();
    expect(await redis.command('DBSIZE')).toBe(':2');
  });
});
