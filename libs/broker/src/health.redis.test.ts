import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { type RedisServerFacts } from '@llm-d/redis';
import { startRedis } from '@llm-d/testing';
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { type Broker } from './broker.ts';
import { queueProblems } from './health.ts';
import { openBroker } from './open-broker.ts';
import { type BrokerOptions } from './options.ts';
import { accept, answer, type BrokerBench, brokerBench, soon, submission } from './testing.ts';

const facts: RedisServerFacts = {
  version: '7.0.15',
  maxMemoryBytes: 1e9,
  usedMemoryBytes: 1e6,
  evictionPolicy: 'noeviction',
  writesAppendOnlyFile: true,
  role: 'master',
};
const settings = { requiresAppendOnlyFile: true, ackDurability: 'none' } as const;

describe('4.14 what a server must be', () => {
  it('finds nothing wrong with a right one', () => {
    expect(queueProblems(facts, settings)).toEqual({ problems: [], warnings: [] });
  });

  it.each([
    { change: { evictionPolicy: 'allkeys-lru' }, text: /^maxmemory-policy: .* got allkeys-lru/ },
    { change: { evictionPolicy: 'volatile-ttl' }, text: /^maxmemory-policy: .* got volatile-ttl/ },
    { change: { writesAppendOnlyFile: false }, text: /^appendonly: expected yes/ },
    { change: { version: '6.0.16' }, text: /^redis_version: expected 6.2 or newer, got 6.0.16/ },
    { change: { role: 'slave' }, text: /^role: expected master/ },
  ])('refuses $change', ({ change, text }) => {
    const { problems, warnings } = queueProblems({ ...facts, ...change }, settings);
    expect(problems).toEqual([{ text: expect.stringMatching(text), command: expect.any(String) }]);
    expect(warnings).toEqual([]);
  });

  it('refuses WAITAOF on a server that has none', () => {
    const wanted = { ...settings, ackDurability: 'aof' } as const;
    expect(queueProblems(facts, wanted).problems).toHaveLength(1);
    expect(queueProblems({ ...facts, version: '7.2.0' }, wanted).problems).toEqual([]);
  });

  it('only warns of no limit, and of no append-only file where the configuration says so', () => {
    const bare = { ...facts, maxMemoryBytes: 0, writesAppendOnlyFile: false };
    const found = queueProblems(bare, { ...settings, requiresAppendOnlyFile: false });
    expect(found.problems).toEqual([]);
    expect(found.warnings.map(({ text }) => text.split(':')[0])).toEqual([
      'appendonly',
      'maxmemory',
    ]);
  });
});

describe('4.14 readiness', () => {
  const open = (url: string, options: Partial<BrokerOptions> = {}): Broker =>
    openBroker({ redis: { url }, lanes: [{ name: 'a' }], ...options });

  it('a wrong server is not ready, and is after the commands that it names', async () => {
    await using server = await startRedis(['--maxmemory-policy', 'allkeys-lru']);
    await using broker = open(server.url);
    expect(broker.health().isReady).toBe(false);
    const signal = soon();
    while (broker.health().problems.length === 0) {
      signal.throwIfAborted();
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    const { isReady, problems } = broker.health();
    expect(isReady).toBe(false);
    expect(problems.map(({ text }) => text.split(':')[0])).toEqual([
      'maxmemory-policy',
      'appendonly',
    ]);
    const { port } = new URL(server.url);
    for (const { command } of problems) {
      // The server of the test has no file to write its settings to.
      const [set = ''] = command.split(' && ');
      const { stdout } = await promisify(execFile)('redis-cli', [
        '-p',
        port,
        ...set.split(' ').slice(1),
      ]);
      expect(stdout).toBe('OK\n');
    }
    await broker.untilReady(soon());
  });

  it('follows the connection, and does not wait for ever', async () => {
    await using server = await startRedis(['--appendonly', 'yes']);
    await using broker = open(server.url);
    await broker.untilReady(soon());
    await server.kill();
    const signal = soon();
    while (broker.health().isReady) {
      signal.throwIfAborted();
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    await expect(broker.untilReady(AbortSignal.timeout(50))).rejects.toThrow();
    await server.restart();
    await broker.untilReady(soon());
  });
});

describe('4.14 the rights that a user needs', () => {
  let bench: BrokerBench;
  beforeAll(async () => {
    bench = await brokerBench();
  });
  afterAll(() => bench.close());

  it('the documented ACL is enough for everything, and for no foreign key', async () => {
    const rules = '+@read +@write +@scripting +@pubsub +@blocking +@connection +info +time -config';
    await bench.redis.call('ACL', 'SETUSER', 'broker', 'on', '>pw', ...rules.split(' '), ...keys());
    const url = bench.server.url.replace('//', '//broker:pw@');
    const errors: Error[] = [];
    const broker = await bench.open({
      redis: { url },
      tenant: () => ({ concurrency: 1 }),
      observer: { onError: (error) => void errors.push(error) },
    });
    const done = Promise.withResolvers<void>();
    const worker = await broker.openLaneWorker(
      {
        lane: 'a',
        onError: (error) => void errors.push(error),
        handle: async (ticket) => {
          await using lease = await broker.dispatch.acquireQuota(ticket.tenant);
          expect(lease.isEnforced).toBe(true);
          expect(await broker.dispatch.begin(ticket, 't')).toMatchObject({ kind: 'run' });
          await broker.dispatch.finish(ticket, 't', answer('{}'));
          done.resolve();
          return { kind: 'done' };
        },
      },
      soon(),
    );
    const ref = await accept(broker, { mode: 'wait', idempotencyKey: 'k' });
    await done.promise;
    const end = await broker.wait(ref, { timeoutMs: 5_000, isCounted: true, signal: soon() });
    expect(end).toMatchObject({ kind: 'ready' });
    expect(await broker.cancel(ref)).toBe('deleted');
    const sweeper = broker.startSweeper();
    await sweeper.sweep();
    await sweeper.close();
    expect(await broker.submit(submission())).toMatchObject({ kind: 'new' });
    await worker.close();
    expect(errors.filter(({ message }) => /NOPERM/.test(message))).toEqual([]);
    const denied = bench.redis.call('ACL', 'DRYRUN', 'broker', 'GET', 'foreign');
    expect(await denied).toMatch(/no permissions/i);
  });

  const keys = (): string[] => ['~ab:*', '~{ab:*', '&ab:*'];
});
