import { describe, expect, it } from '@jest/globals';
import { planRedis } from './redis-plan.mjs';

const plan = ({ commands, ...facts }) =>
  planRedis({
    redisUrl: undefined,
    uid: 1000,
    hasPasswordlessSudo: false,
    ...facts,
    commands: new Set(commands),
  });

const aptInstall = (name) => [
  'apt-get',
  '-o',
  'DPkg::Lock::Timeout=60',
  'install',
  '-y',
  '--no-install-recommends',
  name,
];

describe('planRedis', () => {
  it.each([
    ['redis-server', { commands: ['apt-get', 'redis-server'] }],
    ['valkey-server', { commands: ['valkey-server'] }],
    ['REDIS_URL', { commands: ['redis-server'], redisUrl: 'redis://10.0.0.1' }],
  ])('finds %s', (found, facts) => {
    expect(plan(facts)).toEqual({ found });
  });

  it('takes an empty REDIS_URL for none', () => {
    expect(plan({ commands: [], redisUrl: '' }).found).toBeUndefined();
  });

  it('refreshes the package lists of apt before it installs', () => {
    expect(plan({ commands: ['apt-get'], uid: 0 })).toEqual({
      advice: 'apt-get install redis-server',
      refresh: ['apt-get', 'update'],
      attempts: [aptInstall('redis-server'), aptInstall('valkey-server')],
    });
  });

  it('puts a sudo that asks nothing before every command', () => {
    expect(plan({ commands: ['apt-get', 'sudo'], hasPasswordlessSudo: true })).toMatchObject({
      refresh: ['sudo', '-n', 'apt-get', 'update'],
      attempts: [
        ['sudo', '-n', ...aptInstall('redis-server')],
        ['sudo', '-n', ...aptInstall('valkey-server')],
      ],
    });
  });

  it.each([
    ['dnf', 0, ['dnf', 'install', '-y', 'valkey']],
    ['apk', 0, ['apk', 'add', '--no-cache', 'valkey']],
    ['brew', 501, ['brew', 'install', 'redis']],
  ])('installs with %s', (manager, uid, attempt) => {
    const { refresh, attempts } = plan({ commands: [manager], uid });
    expect(refresh).toBeUndefined();
    expect(attempts[0]).toEqual(attempt);
  });

  it.each([
    [
      'a user who would be asked for a password',
      ['apt-get', 'sudo'],
      1000,
      'sudo apt-get install redis-server',
    ],
    ['root with Homebrew', ['brew'], 0, 'brew install redis'],
    [
      'a machine without a known package manager',
      ['sudo'],
      0,
      'install redis-server or valkey-server, or set REDIS_URL',
    ],
  ])('only gives advice to %s', (_name, commands, uid, advice) => {
    expect(plan({ commands, uid })).toEqual({ advice });
  });
});
