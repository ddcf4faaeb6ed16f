import { type BrokerRedis } from '@llm-d/broker';
import { ConfigError, describeProblem, nearestName, readYamlFile } from '@llm-d/config';
import { type z } from 'zod';
import { type BrokerFile, brokerFile } from './config.ts';

/** A whole configuration: where Redis and the target are is known. */
export interface BrokerAppConfig extends BrokerFile {
  readonly brokerRedis: BrokerRedis;
  readonly address: string;
}

/** Flags, their variables, and the key of the file that they stand for. */
export const sources: Readonly<Record<string, { variable: string; key: readonly string[] }>> = {
  config: { variable: 'ASYNC_BROKER_CONFIG', key: [] },
  listen: { variable: 'ASYNC_BROKER_LISTEN', key: ['listen'] },
  'log-level': { variable: 'ASYNC_BROKER_LOG_LEVEL', key: ['log_level'] },
  'redis-url': { variable: 'ASYNC_BROKER_REDIS_URL', key: ['redis', 'url'] },
  'redis-cluster': { variable: 'ASYNC_BROKER_REDIS_CLUSTER', key: ['redis', 'cluster'] },
  'dispatch-address': { variable: 'ASYNC_BROKER_DISPATCH_ADDRESS', key: ['dispatch', 'address'] },
  'board-password': { variable: 'ASYNC_BROKER_BOARD_PASSWORD', key: ['board', 'password'] },
};

/**
 * Reads the configuration: flags win over `ASYNC_BROKER_*` variables, those over the file. Throws a ConfigError that names
 * every problem.
 */
export function loadBrokerConfig(
  argv: readonly string[],
  environment: Readonly<Record<string, string | undefined>>,
): BrokerAppConfig {
  const given = readFlags(argv);
  for (const [flag, { variable }] of Object.entries(sources)) {
    const value = environment[variable];
    if (value !== undefined && value !== '' && !given.has(flag)) given.set(flag, value);
  }
  const file = given.get('config');
  const values = file === undefined ? {} : readYamlFile(file);
  for (const [flag, value] of given) {
    const key = sources[flag]?.key ?? [];
    if (key.length > 0) write(values, key, flag === 'log-level' ? toNumber(value) : value);
  }
  const result = brokerFile.safeParse(values);
  if (!result.success) throw new ConfigError(result.error.issues.flatMap(describeIssue(values)));
  return complete(result.data);
}

/** What one key alone cannot say. */
function complete(data: BrokerFile): BrokerAppConfig {
  const { redis, dispatch, lanes, gates, worker } = data;
  const { url, cluster } = redis;
  const problems: string[] = [];
  if ((url === undefined) === (cluster === undefined)) {
    problems.push('redis: expected one of url and cluster');
  }
  for (const node of cluster ?? []) {
    if (!/^rediss?:\/\/[^/]/.test(node)) {
      problems.push('redis.cluster: expected URLs that begin with redis:// or rediss://');
    }
  }
  if (dispatch.address === undefined) {
    problems.push('dispatch.address: expected the URL of the coordinator, got nothing');
  }
  const names = lanes.map(({ name }) => name);
  for (const name of new Set(names.filter((name, index) => names.indexOf(name) !== index))) {
    problems.push(`lanes: expected different names, got ${name} twice`);
  }
  if (gates.aimd && gates.aimd.min > gates.aimd.max) {
    problems.push(`gates.aimd.min: expected at most gates.aimd.max, got ${gates.aimd.min}`);
  }
  if (worker.lock < 2 * worker.stalled_interval) {
    problems.push('worker.lock: expected at least twice worker.stalled_interval');
  }
  for (const [tier, { reserved, overflow }] of Object.entries(data.objectives)) {
    if (reserved === overflow) {
      problems.push(`objectives.${tier}: expected different names, a quota has no effect else`);
    }
  }
  if (problems.length > 0 || dispatch.address === undefined) throw new ConfigError(problems);
  const brokerRedis = url === undefined ? { clusterUrls: cluster ?? [] } : { url };
  return { ...data, brokerRedis, address: dispatch.address };
}

function readFlags(argv: readonly string[]): Map<string, string> {
  const given = new Map<string, string>();
  const rest = [...argv];
  for (let word = rest.shift(); word !== undefined; word = rest.shift()) {
    const [, name = '', inline] = /^--([a-z-]+)(?:=(.*))?$/s.exec(word) ?? [];
    if (!(name in sources)) {
      const nearest = nearestName(name, Object.keys(sources));
      const hint = nearest ? `, did you mean --${nearest}?` : '';
      throw new ConfigError([
        name === '' ? 'expected flags such as --config' : `--${name}: unknown flag${hint}`,
      ]);
    }
    const value = inline ?? rest.shift();
    if (value === undefined || value === '') {
      throw new ConfigError([`--${name}: expected a value, got nothing`]);
    }
    given.set(name, value);
  }
  return given;
}

/** Sets a nested key; the section may be absent. */
function write(values: Record<string, unknown>, key: readonly string[], value: unknown): void {
  const [name = '', ...rest] = key;
  if (rest.length === 0) values[name] = value;
  else {
    const section = values[name];
    const copy: Record<string, unknown> = isMapping(section) ? { ...section } : {};
    write(copy, rest, value);
    values[name] = copy;
  }
}

function toNumber(value: string): unknown {
  return /^\d+$/.test(value) ? Number(value) : value;
}

function isMapping(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function describeIssue(values: unknown): (issue: z.core.$ZodIssue) => string[] {
  return (issue) => {
    const path = issue.path.map(String).join('.');
    if (issue.code === 'unrecognized_keys') {
      return issue.keys.map((key) => `${path === '' ? key : `${path}.${key}`}: unknown key`);
    }
    const value = issue.path.reduce<unknown>(
      (parent, key) =>
        typeof parent === 'object' && parent !== null
          ? (parent as Record<PropertyKey, unknown>)[key]
          : undefined,
      values,
    );
    // The URL of Redis may hold a password.
    const shown = path.startsWith('redis') && value !== undefined ? '(not shown)' : value;
    return [describeProblem(path, issue.message, shown)];
  };
}
