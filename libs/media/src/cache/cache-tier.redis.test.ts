import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { connectRedis, untilReady } from '@llm-d/redis';
import { type RedisServer, startRedis } from '@llm-d/testing';
import { type CachedFailure, type CachedMedia, type CacheTier } from './cache-tier.ts';
import { digestOf } from './keys.ts';
import { MemoryTier } from './memory-tier.ts';
import { RedisTier, type RedisTierConfig } from './redis-tier.ts';

let server: RedisServer;
let redis: RedisTier | undefined;
let clock = Date.now();
const now = (): number => clock;

beforeAll(async () => {
  server = await startRedis();
});
afterAll(() => server.close());
beforeEach(async () => {
  clock = Date.now();
  await server.command('FLUSHALL');
});
afterEach(() => redis?.close());

async function redisTier(config: Partial<RedisTierConfig> = {}): Promise<RedisTier> {
  redis = new RedisTier({ url: server.url, now, maxValueBytes: 1000, ...config });
  await redis.ready(AbortSignal.timeout(4_000));
  return redis;
}

function media(text: string, lifeMs = 30_000): CachedMedia {
  const bytes = Buffer.from(text);
  const entry = {
    digest: digestOf(bytes),
    contentTypeHeader: 'image/png',
    isCloseDelimited: false,
    etag: '"1"',
    lastModified: undefined,
    fetchedAt: clock,
    freshUntil: clock + 10_000,
    keepUntil: clock + lifeMs,
    mustRevalidate: false,
  };
  return { entry, bytes };
}

const failure = (): CachedFailure => ({
  code: 'media_origin_status',
  safeMessage: 'downloading media: the origin answered 404',
  kind: 'client',
  stepStatus: 400,
  retryable: false,
  originStatus: 404,
  limit: undefined,
  actual: undefined,
  limits: undefined,
  until: clock + 10_000,
});

const tiers: readonly { name: string; open: () => Promise<CacheTier> }[] = [
  {
    name: 'memory',
    open: () => Promise.resolve(new MemoryTier({ maxValueBytes: 1000 }, now)),
  },
  { name: 'redis', open: () => redisTier() },
];

describe.each(tiers)('the contract of a tier: $name', ({ open }) => {
  const none = { media: undefined, failure: undefined, isUnavailable: false };

  it('knows nothing at first', async () => {
    expect(await (await open()).read('a')).toEqual(none);
  });

  it('gives back what was written, and only under its key', async () => {
    const tier = await open();
    await tier.write('a', media('one'));
    await tier.write('b', media('two'));
    expect((await tier.read('a')).media).toEqual(media('one'));
    expect((await tier.read('b')).media).toEqual(media('two'));
    expect(await tier.read('c')).toEqual(none);
  });

  it('keeps the last that was written', async () => {
    const tier = await open();
    await tier.write('a', media('one'));
    await tier.write('a', media('two'));
    expect((await tier.read('a')).media?.bytes.toString()).toBe('two');
  });

  it('keeps media until their time and not longer', async () => {
    const tier = await open();
    await tier.write('a', media('one', 5_000));
    clock += 4_999;
    expect((await tier.read('a')).media).toBeDefined();
    clock += 1;
    expect(await tier.read('a')).toEqual(none);
  });

  it('leaves out what is over its time or its limit', async () => {
    const tier = await open();
    await tier.write('a', media('one', 0));
    await tier.write('b', media('x'.repeat(1001)));
    await tier.write('c', media('x'.repeat(1000)));
    expect(await tier.read('a')).toEqual(none);
    expect(await tier.read('b')).toEqual(none);
    expect((await tier.read('c')).media).toBeDefined();
  });

  it('remembers a failure beside the media, until its time', async () => {
    const tier = await open();
    await tier.write('a', media('one'));
    await tier.writeFailure('a', failure());
    const until = failure();
    expect(await tier.read('a')).toEqual({
      media: media('one'),
      failure: until,
      isUnavailable: false,
    });
    clock += 10_000;
    expect((await tier.read('a')).failure).toBeUndefined();
  });

  it('forgets a failure when media come', async () => {
    const tier = await open();
    await tier.writeFailure('a', failure());
    expect((await tier.read('a')).failure).toEqual(failure());
    await tier.write('a', media('one'));
    expect((await tier.read('a')).failure).toBeUndefined();
  });

  it('forgets all of a key', async () => {
    const tier = await open();
    await tier.write('a', media('one'));
    await tier.writeFailure('a', failure());
    await tier.delete('a');
    expect(await tier.read('a')).toEqual(none);
  });
});

describe('the memory tier', () => {
  it('drops what was not used for longest when its bytes are over', async () => {
    const tier = new MemoryTier({ maxBytes: 3 * 1524 }, now);
    for (const key of ['a', 'b', 'c']) {
      await tier.write(key, media(key.repeat(500)));
    }
    await tier.read('a');
    await tier.write('d', media('d'.repeat(500)));
    expect(tier.bytes).toBe(3 * 1524);
    expect((await tier.read('b')).media).toBeUndefined();
    expect((await tier.read('a')).media).toBeDefined();
  });

  it('bounds failures too', async () => {
    const tier = new MemoryTier({ maxBytes: 10 * 1024 }, now);
    for (let index = 0; index < 100; index += 1) {
      await tier.writeFailure(String(index), failure());
    }
    expect(tier.bytes).toBe(10 * 1024);
  });

  it('uses nothing longer than its own age limit', async () => {
    const tier = new MemoryTier({ maxAgeMs: 1_000 }, now);
    await tier.write('a', media('one'));
    clock += 1_000;
    expect((await tier.read('a')).media).toBeUndefined();
  });
});

describe('the Redis tier', () => {
  it('gives every key a time, and bytes of two URLs one place and the longer time', async () => {
    const tier = await redisTier();
    await tier.write('a', media('one', 60_000));
    await tier.write('b', media('one', 20_000));
    await tier.writeFailure('c', failure());
    await tier.lock('d', 1_000);
    const blob = `mf1:b:${digestOf(Buffer.from('one'))}`;
    const keys = ['mf1:u:a', 'mf1:u:b', 'mf1:n:c', 'mf1:l:d', blob];
    expect(await server.command('DBSIZE')).toBe(`:${keys.length}`);
    for (const key of keys) {
      expect(Number((await server.command('PTTL', key)).slice(1))).toBeGreaterThan(0);
    }
    expect(Number((await server.command('PTTL', blob)).slice(1))).toBeGreaterThan(50_000);
    await tier.write('b', media('one', 90_000));
    expect(Number((await server.command('PTTL', blob)).slice(1))).toBeGreaterThan(80_000);
  });

  it('[138] deletes bytes that were altered', async () => {
    const reasons: string[] = [];
    const tier = await redisTier({ onAltered: (reason) => void reasons.push(reason) });
    await tier.write('a', media('one'));
    const blob = `mf1:b:${digestOf(Buffer.from('one'))}`;
    await server.command('SET', blob, 'other');
    expect((await tier.read('a')).media).toBeUndefined();
    expect(await server.command('EXISTS', blob)).toBe(':0');
    expect(reasons).toEqual([expect.stringContaining('not what was written')]);
  });

  describe('[138] an entry of the index', () => {
    const rows: readonly { name: string; stored: (given: string) => string }[] = [
      { name: 'without a seal', stored: (given) => given.slice(given.indexOf('{')) },
      { name: 'with an empty seal', stored: (given) => given.slice(given.indexOf(' ')) },
      { name: 'that says other things', stored: (given) => given.replace('false', 'true') },
    ];

    it.each(rows)('$name is none', async ({ stored }) => {
      const tier = await redisTier();
      await tier.write('a', media('one'));
      const client = connectRedis({ url: server.url, name: 'test' });
      await untilReady(client, AbortSignal.timeout(4_000));
      const given = (await client.get('mf1:u:a')) ?? '';
      await client.set('mf1:u:a', stored(given));
      client.disconnect();
      expect(stored(given)).not.toBe(given);
      expect((await tier.read('a')).media).toBeUndefined();
    });

    it('is none under another key', async () => {
      const tier = await redisTier();
      await tier.write('a', media('one'));
      await server.command('COPY', 'mf1:u:a', 'mf1:u:b');
      expect((await tier.read('b')).media).toBeUndefined();
    });
  });

  it.each(['not-json', 'seal {}', 'seal []', 'seal {"digest":"x"}', '{"code":"no_such_code"}'])(
    'takes %s in the store for nothing',
    async (value) => {
      const tier = await redisTier();
      await server.command('SET', 'mf1:u:a', `'${value}'`);
      await server.command('SET', 'mf1:n:a', `'${value}'`);
      expect(await tier.read('a')).toMatchObject({ media: undefined, failure: undefined });
    },
  );

  it('[137] gives a lock to one, and to the next after its release or its time', async () => {
    const tier = await redisTier();
    const lock = await tier.lock('a', 60_000);
    expect(await tier.lock('a', 60_000)).toBe('held');
    expect(await tier.isLocked('a')).toBe(true);
    if (typeof lock === 'object') await lock.release();
    expect(await tier.isLocked('a')).toBe(false);
    const next = await tier.lock('a', 60_000);
    expect(next).toEqual({ release: expect.any(Function) });
    // The first holder must not take the lock from the next.
    if (typeof lock === 'object') await lock.release();
    expect(await tier.isLocked('a')).toBe(true);
  });

  it('reads and does not write while the server is full', async () => {
    await using full = await startRedis();
    const states: string[] = [];
    const tier = await redisTier({ url: full.url, onState: (state) => void states.push(state) });
    await tier.write('a', media('one'));
    await full.fill();
    await tier.write('b', media('two'));
    expect(await tier.lock('b', 1_000)).toBeUndefined();
    expect((await tier.read('a')).media).toBeDefined();
    expect((await tier.read('b')).media).toBeUndefined();
    await full.command('CONFIG', 'SET', 'maxmemory', '0');
    clock += 15_000;
    await tier.write('b', media('two'));
    expect((await tier.read('b')).media).toBeUndefined();
    clock += 15_001;
    await tier.write('b', media('two'));
    expect((await tier.read('b')).media).toBeDefined();
    expect(states).toEqual(['full', 'ok']);
  });

  it('is left alone after five failures, and tried again after a pause', async () => {
    await using other = await startRedis();
    const states: string[] = [];
    const tier = await redisTier({ url: other.url, onState: (state) => void states.push(state) });
    await other.kill();
    for (let index = 0; index < 5; index += 1) {
      expect((await tier.read('a')).isUnavailable).toBe(true);
    }
    expect(tier.state).toBe('down');
    await other.restart();
    await tier.ready(AbortSignal.timeout(4_000));
    expect((await tier.read('a')).isUnavailable).toBe(true);
    clock += 5_001;
    await tier.read('a');
    expect((await tier.read('a')).isUnavailable).toBe(false);
    expect(states).toEqual(['down', 'ok']);
  });

  it('tells of a server that goes and comes, before anybody asks for something', async () => {
    await using other = await startRedis();
    const told: string[] = [];
    let next = Promise.withResolvers<void>();
    const onState = (state: string, reason: string): void => {
      told.push(`${state} ${reason}`);
      next.resolve();
    };
    await redisTier({ url: other.url, onState });
    await other.kill();
    await next.promise;
    next = Promise.withResolvers();
    await other.restart();
    await next.promise;
    expect(told).toEqual([
      expect.stringContaining(`down ${other.url}: not reachable`),
      `ok ${other.url}: answers`,
    ]);
  });

  it('comes back by itself after the server was frozen', async () => {
    await using other = await startRedis();
    const tier = await redisTier({ url: other.url, controlTimeoutMs: 50 });
    await tier.write('a', media('one', 3_600_000));
    other.freeze();
    for (let index = 0; index < 5; index += 1) {
      expect((await tier.read('a')).isUnavailable).toBe(true);
    }
    expect(tier.state).toBe('down');
    other.thaw();
    while ((await tier.read('a')).media === undefined) {
      clock += 5_001; // past the pause
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    expect(tier.state).toBe('ok');
  });
});
