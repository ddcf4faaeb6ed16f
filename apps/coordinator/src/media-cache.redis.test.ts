import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { type RedisServer, type ScriptedServer, scriptedServer, startRedis } from '@llm-d/testing';
import { type ClientAnswer, TestCoordinator } from './testing.ts';

const png = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC',
  'base64',
);

let redis: RedisServer;
let origin: ScriptedServer;
const open: TestCoordinator[] = [];
beforeAll(async () => {
  redis = await startRedis();
});
afterAll(() => redis.close());
beforeEach(async () => {
  origin = await scriptedServer();
  origin.play({ bytes: png, headers: { 'content-type': 'image/png' } });
  await redis.command('FLUSHALL');
});
afterEach(async () => {
  await Promise.all(open.splice(0).map((coordinator) => coordinator.close()));
  await origin.close();
});

async function start(cache?: Record<string, unknown>): Promise<TestCoordinator> {
  const coordinator = await TestCoordinator.open();
  open.push(coordinator);
  const media = cache ? { cache } : {};
  await coordinator.start({ media }, { media: { testOnlyAllowLoopback: true } });
  return coordinator;
}

const chat = (url: string) => ({
  model: 'm',
  messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url } }] }],
});
const askAbout = (coordinator: TestCoordinator, name: string): Promise<ClientAnswer> =>
  coordinator.ask(chat(`${origin.url}/${name}`));

/** What follows an answer is written behind it. */
async function until(isThere: () => Promise<boolean>): Promise<void> {
  while (!(await isThere())) await new Promise((resolve) => setTimeout(resolve, 10));
}

describe('the media cache of a coordinator', () => {
  it('is off unless it is enabled', async () => {
    const coordinator = await start();
    for (let i = 0; i < 2; i++) expect((await askAbout(coordinator, 'a')).status).toBe(200);
    expect(origin.calls).toHaveLength(2);
    expect(await coordinator.samples('media_cache_total')).toEqual({});
    expect(await coordinator.samples('media_redis_state')).toEqual({});
  });

  it('serves the second request from memory, with the same body for the workers', async () => {
    const coordinator = await start({ enabled: true });
    for (let i = 0; i < 2; i++) expect((await askAbout(coordinator, 'a')).status).toBe(200);
    expect(origin.calls).toHaveLength(1);
    const [first, second] = coordinator.legs('decode');
    expect(second?.body).toEqual(first?.body);
    expect(await coordinator.samples('media_cache_total')).toEqual({
      'media_cache_total{tier="none",status="miss"}': 1,
      'media_cache_total{tier="memory",status="hit"}': 1,
    });
    expect(await coordinator.samples('media_fetch_total')).toEqual({
      'media_fetch_total{modality="image",code="ok"}': 2,
    });
  });

  it('serves what another coordinator has downloaded from Redis', async () => {
    const cache = { enabled: true, redis_url: redis.url };
    const [one, other] = [await start(cache), await start(cache)];
    await until(async () => {
      await redis.command('FLUSHALL');
      await askAbout(one, String(Math.random()));
      return (await redis.command('DBSIZE')) === ':2';
    });
    const path = origin.calls.at(-1)?.path ?? '';
    const calls = origin.calls.length;
    expect((await askAbout(other, path.slice(1))).status).toBe(200);
    expect(origin.calls).toHaveLength(calls);
    expect(await other.samples('media_cache_total')).toEqual({
      'media_cache_total{tier="redis",status="hit"}': 1,
    });
    expect(await other.samples('media_redis_state{state="ok"}')).toEqual({
      'media_redis_state{state="ok"}': 1,
    });
  });

  it('[138] fetches again what somebody has altered in Redis, and counts it', async () => {
    const cache = { enabled: true, redis_url: redis.url };
    const [one, other] = [await start(cache), await start(cache)];
    await until(async () => {
      await redis.command('FLUSHALL');
      await askAbout(one, String(Math.random()));
      return (await redis.command('DBSIZE')) === ':2';
    });
    const path = origin.calls.at(-1)?.path ?? '';
    for (const key of (await redis.command('KEYS', 'mf1:b:*')).match(/mf1:b:\w+/g) ?? []) {
      await redis.command('SET', key, 'altered');
    }
    expect((await askAbout(other, path.slice(1))).status).toBe(200);
    expect(origin.calls.filter((call) => call.path === path)).toHaveLength(2);
    expect(await other.samples('media_cache_altered_total')).toEqual({
      media_cache_altered_total: 1,
    });
  });

  it('[134, 140] remembers a failure, with the same answer for the client', async () => {
    const coordinator = await start({ enabled: true });
    origin.play({ status: 404 });
    const headers = { 'x-request-id': 'same' };
    const ask = () => coordinator.ask(chat(`${origin.url}/a?sig=SECRET`), { headers });
    const [first, second] = [await ask(), await ask()];
    expect(first.status).toBe(400);
    expect(second.text).toBe(first.text);
    expect(origin.calls).toHaveLength(1);
    expect(await coordinator.samples('media_cache_total')).toMatchObject({
      'media_cache_total{tier="none",status="negative"}': 1,
    });
    expect(JSON.stringify(coordinator.lines)).not.toContain('SECRET');
    expect(JSON.stringify(await coordinator.samples(''))).not.toMatch(/SECRET|127\.0\.0\.1/);
  });
});

describe('[135] Redis in trouble', () => {
  const trouble: readonly { name: string; make: (server: RedisServer) => unknown }[] = [
    { name: 'killed', make: (server) => server.kill() },
    { name: 'frozen', make: (server) => server.freeze() },
    { name: 'full', make: (server) => server.fill() },
  ];

  it.each(trouble)('$name: no status changes, within the time-out', async ({ make }) => {
    await using own = await startRedis();
    const coordinator = await start({
      ...{ enabled: true, redis_url: own.url, control_timeout: '150ms' },
    });
    await until(async () => {
      await askAbout(coordinator, String(Math.random()));
      return (await own.command('DBSIZE')) !== ':0';
    });
    await make(own);
    const times: number[] = [];
    for (const name of ['a', 'b', 'c', 'd', 'e', 'f', 'g']) {
      const startedAt = performance.now();
      expect((await askAbout(coordinator, name)).status).toBe(200);
      times.push(performance.now() - startedAt);
    }
    expect(Math.max(...times)).toBeLessThan(150 + 250);
    origin.play({ status: 404 });
    expect((await askAbout(coordinator, 'h')).status).toBe(400);
    origin.play({ status: 503 });
    expect((await askAbout(coordinator, 'i')).status).toBe(424);
  });

  it('that was never there: the coordinator starts and says so', async () => {
    await using own = await startRedis();
    const { url } = own;
    await own.kill();
    const coordinator = await start({ enabled: true, redis_url: url });
    for (const name of ['a', 'b', 'c', 'd', 'e', 'f']) {
      expect((await askAbout(coordinator, name)).status).toBe(200);
    }
    expect(await coordinator.samples('media_redis_state{state="down"}')).toEqual({
      'media_redis_state{state="down"}': 1,
    });
    expect(coordinator.lines).toContainEqual(
      expect.objectContaining({ level: 'warn', media_redis: 'down' }),
    );
  });
});
