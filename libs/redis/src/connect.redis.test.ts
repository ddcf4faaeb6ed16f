import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { type RedisServer, startRedis } from '@llm-d/testing';
import { cacheProblems, readServerFacts } from './check-server.ts';
import { connectRedis, type RedisClient, untilReady } from './connect.ts';
import { redactRedisUrl, type RedisError, toRedisError } from './redis-error.ts';

const password = 'not-for-logs';
let server: RedisServer;
const clients: RedisClient[] = [];
const errors: RedisError[] = [];

beforeAll(async () => {
  server = await startRedis();
});
afterAll(() => server.close());
afterEach(() => {
  for (const client of clients.splice(0)) {
    client.disconnect();
  }
  errors.length = 0;
});

const soon = (): AbortSignal => AbortSignal.timeout(4_000);

function connect(url = server.url, commandTimeoutMs = 10_000): RedisClient {
  const onError = (error: RedisError): void => void errors.push(error);
  const client = connectRedis({ url, name: 'test', commandTimeoutMs, onError });
  clients.push(client);
  return client;
}

/** What a failing command becomes, and how long that took. */
async function failure(work: Promise<unknown>): Promise<{ error: RedisError; tookMs: number }> {
  const startedAt = performance.now();
  try {
    await work;
  } catch (cause) {
    const error = toRedisError(cause, redactRedisUrl(server.url));
    return { error, tookMs: performance.now() - startedAt };
  }
  throw new Error('expected a failure');
}

describe('connectRedis', () => {
  it('takes commands when it is ready', async () => {
    const client = connect();
    await untilReady(client, soon());
    await client.set('name', Buffer.from([0, 255]));
    expect(await client.getBuffer('name')).toEqual(Buffer.from([0, 255]));
    expect(await client.client('GETNAME')).toBe('test');
  });

  it('sends the commands of one turn in groups of eight when it is batching', async () => {
    const client = connectRedis({
      ...{ url: server.url, name: 'test', commandTimeoutMs: 1_000, isBatching: true },
    });
    clients.push(client);
    await untilReady(client, soon());
    const reads = async (): Promise<number> =>
      Number(/total_reads_processed:(\d+)/.exec(await client.info('stats'))?.[1]);
    const before = await reads();
    const sent = Array.from({ length: 100 }, () => client.incr('count'));
    expect(await Promise.all(sent)).toEqual(Array.from({ length: 100 }, (_, index) => index + 1));
    // Thirteen groups, and the two questions.
    expect((await reads()) - before).toBeLessThanOrEqual(15);
  });

  it('fails a command at once while there is no connection', async () => {
    const times: number[] = [];
    for (let i = 0; i < 5; i++) {
      const { error, tookMs } = await failure(connect('redis://127.0.0.1:1').get('name'));
      expect(error.kind).toBe('unreachable');
      times.push(tookMs);
    }
    // The fastest, since the machine may be busy with others.
    expect(Math.min(...times)).toBeLessThan(90);
  });

  it('says why nobody is reached', async () => {
    const { promise, resolve } = Promise.withResolvers<RedisError>();
    const url = 'redis://127.0.0.1:1';
    clients.push(connectRedis({ url, name: 'test', connectTimeoutMs: 15_000, onError: resolve }));
    expect((await promise).message).toBe('redis://127.0.0.1:1: not reachable (ECONNREFUSED)');
  });

  it('fails a command after its timeout when the server is frozen, and works again after', async () => {
    const client = connect(server.url, 100);
    await untilReady(client, soon());
    server.freeze();
    try {
      const { error, tookMs } = await failure(client.get('name'));
      expect(error.kind).toBe('timeout');
      expect(tookMs).toBeGreaterThan(80);
      expect(tookMs).toBeLessThan(1_000);
    } finally {
      server.thaw();
    }
    await untilReady(connect(), soon());
  });

  it('connects again when the server is back', async () => {
    const client = connect();
    await untilReady(client, soon());
    await server.kill();
    expect((await failure(client.get('name'))).error.kind).toBe('unreachable');
    await server.restart();
    await untilReady(client, soon());
    expect(await client.get('name')).toBeNull();
  });

  it('tells a full server from other errors, without the arguments', async () => {
    await using full = await startRedis();
    const client = connect(full.url);
    await untilReady(client, soon());
    await client.set('name', 'value');
    expect((await failure(client.lpush('name', password))).error).toMatchObject({ kind: 'reply' });
    await full.fill();
    const { error } = await failure(client.set('name', password));
    expect(error.kind).toBe('full');
    expect(`${error.message}${error.stack}${JSON.stringify(error)}`).not.toContain(password);
  });

  it('shows neither user nor password of its URL', async () => {
    const url = `${server.url.replace('//', `//user:${password}@`)}/0?token=${password}`;
    expect(redactRedisUrl(url)).toBe(`${server.url}/0`);
    const client = connect(url);
    await failure(untilReady(client, AbortSignal.timeout(300)));
    expect(JSON.stringify(errors.map(({ message }) => message))).not.toContain(password);
  });

  it.each(['', 'localhost:6379', 'http://localhost'])('refuses %j without repeating it', (url) => {
    expect(() => connect(url)).toThrow('expected a URL that begins with redis://');
  });
});

describe('the check of a server', () => {
  it('reads what the server says', async () => {
    await using other = await startRedis([
      ...['--maxmemory', '64mb', '--maxmemory-policy', 'allkeys-lru'],
    ]);
    const client = connect(other.url);
    await untilReady(client, soon());
    const facts = await readServerFacts(client);
    expect(facts).toEqual({
      version: expect.stringMatching(/^\d+\.\d+/),
      maxMemoryBytes: 64 * 1024 * 1024,
      usedMemoryBytes: expect.any(Number),
      evictionPolicy: 'allkeys-lru',
      writesAppendOnlyFile: false,
      role: 'master',
    });
    expect(cacheProblems(facts)).toEqual([]);
  });

  const server = { version: '7.0', usedMemoryBytes: 1, role: 'master' };
  const facts = { ...server, maxMemoryBytes: 1, writesAppendOnlyFile: false };
  it.each([
    { policy: 'allkeys-lfu', isShared: false, problems: 0 },
    { policy: 'noeviction', isShared: false, problems: 1 },
    { policy: 'volatile-lru', isShared: true, problems: 0 },
    { policy: 'allkeys-lru', isShared: true, problems: 1 },
  ])('finds $problems problems in $policy, shared: $isShared', ({ policy, isShared, problems }) => {
    expect(cacheProblems({ ...facts, evictionPolicy: policy }, isShared)).toHaveLength(problems);
  });

  it('names every setting that has to change', () => {
    const wrong = { ...facts, evictionPolicy: 'noeviction', maxMemoryBytes: 0 };
    expect(cacheProblems({ ...wrong, writesAppendOnlyFile: true })).toEqual([
      'maxmemory-policy: expected allkeys-lru or allkeys-lfu, got noeviction',
      'maxmemory: expected a limit, got none',
      'appendonly: expected no, a cache needs no persistence, got yes',
    ]);
  });
});
