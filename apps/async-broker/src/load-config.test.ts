import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { ConfigError } from '@llm-d/config';
import { helpText } from './help.ts';
import { type BrokerAppConfig, loadBrokerConfig, sources } from './load-config.ts';

let folder = '';
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'async-broker-'));
});
afterAll(() => rmSync(folder, { recursive: true }));

const needed = 'redis: {url: redis://localhost}\ndispatch: {address: http://coordinator}\n';

function load(file: string, argv: string[] = [], variables = {}): BrokerAppConfig {
  const path = join(folder, 'broker.yaml');
  writeFileSync(path, file);
  return loadBrokerConfig(['--config', path, ...argv], variables);
}
function problems(file: string, argv: string[] = []): readonly string[] {
  try {
    load(file, argv);
  } catch (error) {
    if (error instanceof ConfigError) return error.problems;
    throw error;
  }
  return [];
}

describe('the configuration', () => {
  it('has defaults for all but the two addresses', () => {
    const config = load(needed);
    expect(config).toMatchObject({
      listen: { port: 8080 },
      brokerRedis: { url: 'redis://localhost' },
      address: 'http://coordinator',
      lanes: [{ name: 'request-sortedset' }],
      dispatch: { slots: 64, attempt_timeout: 300_000, retry_connect_errors: true },
      gates: { saturated: 'wait', longest_wait: 300_000 },
      worker: { lock: 15_000, stalled_interval: 5_000 },
      shutdown_timeout: 25_000,
      drain_timeout: 15_000,
      result_ttl: 3_600_000,
    });
    expect(config.gates.aimd).toBeUndefined();
    expect(config.board.password).toBeUndefined();
  });

  it('takes flags before variables before the file', () => {
    const variables = {
      ASYNC_BROKER_LISTEN: ':2',
      ASYNC_BROKER_LOG_LEVEL: '4',
      ASYNC_BROKER_BOARD_PASSWORD: 'secret',
    };
    const config = load(`listen: ':1'\nlog_level: 1\n${needed}`, ['--listen=:3'], variables);
    expect(config).toMatchObject({
      listen: { port: 3 },
      log_level: 4,
      board: { password: 'secret', username: 'admin' },
    });
  });

  it('keeps a section of the file when a flag sets one key of it', () => {
    const file = 'dispatch: {address: http://a, slots: 7}\nredis: {append_only_file: warn}\n';
    expect(
      load(file, ['--redis-url', 'redis://b', '--dispatch-address', 'http://c']),
    ).toMatchObject({
      dispatch: { slots: 7 },
      address: 'http://c',
      brokerRedis: { url: 'redis://b' },
      redis: { append_only_file: 'warn' },
    });
  });

  it('fills in the numbers of congestion control', () => {
    expect(load(`${needed}gates: {aimd: {max: 32}}\n`).gates.aimd).toEqual({
      min: 1,
      max: 32,
      increase: 1,
      decrease: 0.5,
    });
  });

  it.each([
    {
      name: 'no Redis (C1)',
      file: 'dispatch: {address: http://a}',
      problem: 'redis: expected one of url and cluster',
    },
    {
      name: 'no coordinator',
      file: 'redis: {url: redis://a}',
      problem: 'dispatch.address: expected the URL of the coordinator, got nothing',
    },
    { name: 'an unknown key (C1)', file: `${needed}lane: 1`, problem: 'lane: unknown key' },
    {
      name: 'an unknown key inside',
      file: `${needed}gates: {aimd: {maximum: 3}}`,
      problem: 'gates.aimd.maximum: unknown key',
    },
    {
      name: 'a URL of Redis that is none, and does not show it',
      file: 'redis: {url: "http://user:secret@a"}\ndispatch: {address: http://a}',
      problem:
        'redis.url: expected a URL that begins with redis:// or rediss://, got "(not shown)"',
    },
    {
      name: 'a lane name with a colon (4.3)',
      file: `${needed}lanes: [{name: 'a:b'}]`,
      problem: 'lanes.0.name: expected 1 to 48 characters of a-z, 0-9 and -, got "a:b"',
    },
    {
      name: 'a lane twice',
      file: `${needed}lanes: [{name: a}, {name: a}]`,
      problem: 'lanes: expected different names, got a twice',
    },
    {
      name: 'no lane',
      file: `${needed}lanes: []`,
      problem: 'lanes: expected at least one lane, got []',
    },
    {
      name: 'a lock that ends before the second look (4.7)',
      file: `${needed}worker: {lock: 5s, stalled_interval: 5s}`,
      problem: 'worker.lock: expected at least twice worker.stalled_interval',
    },
    {
      name: 'an objective that makes a quota void (R9)',
      file: `${needed}objectives: {async: {reserved: a, overflow: a}}`,
      problem: 'objectives.async: expected different names, a quota has no effect else',
    },
    {
      name: 'a window that is upside down',
      file: `${needed}gates: {aimd: {min: 9, max: 3}}`,
      problem: 'gates.aimd.min: expected at most gates.aimd.max, got 9',
    },
    {
      name: 'a number that is none',
      file: 'redis: {url: redis://a}\ndispatch: {address: http://a, slots: -1}',
      problem: 'dispatch.slots: expected a positive number, got -1',
    },
  ])('refuses $name', ({ file, problem }) => {
    expect(problems(file)).toContain(problem);
  });

  it.each([
    { argv: ['--lisen', ':1'], problem: '--lisen: unknown flag, did you mean --listen?' },
    { argv: ['--listen'], problem: '--listen: expected a value, got nothing' },
    { argv: ['start'], problem: 'expected flags such as --config' },
  ])('refuses the flags $argv', ({ argv, problem }) => {
    expect(problems(needed, argv)).toEqual([problem]);
  });
});

it.each(Object.keys(sources))('--help names --%s', (name) => {
  expect(helpText).toContain(`  --${name} `);
});
