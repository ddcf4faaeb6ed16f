import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { findRedis } from './find-redis.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'find-redis-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

function program(name: string, mode = 0o755): string {
  const file = join(folder, name);
  writeFileSync(file, '');
  chmodSync(file, mode);
  return file;
}

describe('findRedis', () => {
  it('takes REDIS_URL before anything else', () => {
    program('redis-server');
    const url = 'redis://cache:6379';
    expect(findRedis({ REDIS_URL: url, PATH: folder })).toEqual({ url });
  });

  it.each(['redis-server', 'valkey-server'])('finds %s on the PATH', (name) => {
    const file = program(name);
    expect(findRedis({ PATH: `/nowhere::${folder}`, REDIS_URL: '' })).toEqual({ program: file });
  });

  it('finds nothing where there is nothing', () => {
    program('redis-cli');
    expect(findRedis({ PATH: folder })).toBeUndefined();
    expect(findRedis({})).toBeUndefined();
  });
});
