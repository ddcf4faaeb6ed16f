import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { type RedisServer, startRedis } from '@llm-d/testing';
import sharp from 'sharp';
import { createMediaFetcher } from '../create-media-fetcher.ts';
import { type MediaFetcher } from '../media-fetcher.ts';
import { failureOf, image, never, type Origin, optionsWith, startOrigin } from '../testing.ts';
import { type TransformRules } from './rules.ts';

const transform: TransformRules = {
  mode: 'fit',
  factor: 28,
  minPixels: 3_136,
  maxPixels: 50_000,
  output: 'auto',
  background: '#ffffff',
  bakesOrientation: false,
};

let redis: RedisServer;
let origin: Origin;
let photo: Buffer;
let served = 0;
const asked: string[] = [];
beforeAll(async () => {
  const noise = { type: 'gaussian', mean: 128, sigma: 40 } as const;
  const create = { width: 1500, height: 1000, channels: 3, noise, background: '#000' } as const;
  photo = await sharp({ create }).jpeg().toBuffer();
  redis = await startRedis();
  origin = await startOrigin(({ url = '' }, response) => {
    asked.push(url);
    response.setHeader('cache-control', 'max-age=600');
    response.end(photo, () => {
      served += 1;
    });
  });
});
afterAll(async () => {
  await origin[Symbol.asyncDispose]();
  await redis.close();
});

const fetcher = (): MediaFetcher & AsyncDisposable => {
  const made = createMediaFetcher({
    testOnlyAllowLoopback: true,
    // Without memory every copy comes from Redis.
    cache: { redisUrl: redis.url, redis: { controlTimeoutMs: 2_000 }, memory: { maxBytes: 0 } },
  });
  return Object.assign(made, { [Symbol.asyncDispose]: () => made.close() });
};

it('is made once for all processes, and kept apart from other sizes', async () => {
  const ask = async (maxPixels: number) => {
    await using one = fetcher();
    const options = optionsWith({
      transform: { ...transform, maxPixels },
      downloadTimeoutMs: 60_000,
    });
    // Redis is connected to in the background.
    const isConnected = async () => {
      const { facts } = await one.fetch(image(`${origin.base}/first`), optionsWith({}), never());
      return facts.cache?.tier === 'redis';
    };
    while (!(await isConnected()));
    return await one.fetch(image(`${origin.base}/a`), options, never());
  };
  const first = await ask(50_000);
  expect(first.facts.transform).toMatchObject({ result: 'shrunk', sourceBytes: photo.length });
  const second = await ask(50_000);
  expect(second.facts.transform?.result).toBe('cached');
  expect(second.bytes.equals(first.bytes)).toBe(true);
  expect([second.width, second.height]).toEqual([first.width, first.height]);
  const other = await ask(20_000);
  expect(other.facts.transform?.result).toBe('shrunk');
  expect(asked.filter((url) => url === '/a')).toHaveLength(1);
  const keys = await redis.command('KEYS', '*');
  expect(keys.match(/mf1:t:[0-9a-f]{64}:[0-9a-f]{64}/g)).toHaveLength(2);
}, 30_000);

it('[90] a caller that leaves while an image is decoded is gone at once', async () => {
  const made = createMediaFetcher({ testOnlyAllowLoopback: true });
  const leaving = new AbortController();
  const options = optionsWith({ transform, downloadTimeoutMs: 60_000 });
  // The first call loads sharp.
  await made.fetch(image(`${origin.base}/b`), options, never());
  const busy = Array.from({ length: 12 }, (_, i) => image(`${origin.base}/busy${i}`));
  served = 0;
  const failure = failureOf(() => made.fetchMany(busy, options, leaving.signal));
  // Whole downloads that have not ended are being decoded, or wait for it.
  while (served < 10) await new Promise((resolve) => setTimeout(resolve, 1));
  leaving.abort();
  expect((await failure).code).toBe('media_cancelled');
  expect(made.stats()).toEqual({ activeDownloads: 0, queuedDownloads: 0, bufferedBytes: 0 });
  expect((await made.fetch(image(`${origin.base}/b`), options, never())).width).toBeLessThan(1500);
  await made.close();
}, 30_000);
