import { describe, expect, it } from '@jest/globals';
import { existsSync, readdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { startRedis } from './redis.ts';

const folders = (): string[] =>
  readdirSync(tmpdir()).filter((name) => name.startsWith('test-redis-'));

describe('startRedis', () => {
  it('runs a server of its own, without persistence', async () => {
    await using first = await startRedis();
    await using second = await startRedis(['--maxmemory-policy', 'allkeys-lru']);
    expect(first.url).not.toBe(second.url);
    expect(await first.command('SET', 'name', 'value')).toBe('+OK');
    expect(await first.command('GET', 'name')).toBe('$5\r\nvalue');
    expect(await second.command('GET', 'name')).toBe('$-1');
    expect(await second.command('CONFIG', 'GET', 'maxmemory-policy')).toContain('allkeys-lru');
    expect(await first.command('CONFIG', 'GET', 'appendonly')).toContain('no');
  });

  it('leaves nothing behind', async () => {
    const before = new Set(folders());
    const redis = await startRedis();
    const [folder = ''] = folders().filter((name) => !before.has(name));
    await redis.close();
    await redis.close();
    expect(existsSync(`${tmpdir()}/${folder}`)).toBe(false);
    await expect(redis.command('PING')).rejects.toThrow('ECONNREFUSED');
  });

  it('can be frozen: it answers only when it goes on', async () => {
    await using redis = await startRedis();
    redis.freeze();
    let isThawed = false;
    const answer = redis.command('PING').then((text) => ({ text, isThawed }));
    await new Promise((resolve) => setTimeout(resolve, 50));
    isThawed = true;
    redis.thaw();
    expect(await answer).toEqual({ text: '+PONG', isThawed: true });
  });

  it('can be killed and comes back empty on its port', async () => {
    await using redis = await startRedis();
    await redis.command('SET', 'name', 'value');
    await redis.kill();
    await expect(redis.command('PING')).rejects.toThrow('ECONNREFUSED');
    await redis.restart();
    expect(await redis.command('GET', 'name')).toBe('$-1');
  });

  it('can be filled: it refuses writes and still reads', async () => {
    await using redis = await startRedis();
    await redis.command('SET', 'name', 'value');
    await redis.fill();
    expect(await redis.command('SET', 'other', 'value')).toMatch(/^-OOM/);
    expect(await redis.command('GET', 'name')).toBe('$5\r\nvalue');
  });

  it('says how to get the program where it is missing', async () => {
    await expect(startRedis([], 'no-such-redis-server')).rejects.toThrow(
      'tests need redis-server on the PATH',
    );
  });
});
