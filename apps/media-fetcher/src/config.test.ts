import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { ConfigError } from '@llm-d/config';
import { createMediaFetcher } from '@llm-d/media';
import { Admission } from '@llm-d/service';
import { type z } from 'zod';
import { fetcherFile, fetcherFlags, loadFetcherConfig } from './config.ts';
import { leavesOf } from './config-sources.ts';
import { FetcherMetrics } from './fetcher-metrics.ts';
import { helpText } from './help.ts';

let directory: string;
beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), 'media-fetcher-'));
});
afterAll(() => rmSync(directory, { recursive: true }));

function file(text: string, name = 'fetcher.yaml'): string {
  const path = join(directory, name);
  writeFileSync(path, text);
  return path;
}

const load = (yaml: string, environment = {}) =>
  loadFetcherConfig(['--config', file(yaml)], environment);

function problemsOf(work: () => unknown): readonly string[] {
  try {
    work();
  } catch (error) {
    if (error instanceof ConfigError) return error.problems;
    throw error;
  }
  return [];
}

describe('the configuration', () => {
  it('has defaults for everything: those of media-fetcher.md 4, on loopback', () => {
    const { config, warnings } = loadFetcherConfig([], {});
    expect(warnings).toEqual([]);
    expect(config).toMatchObject({
      listen: { host: '127.0.0.1', port: 8083 },
      shutdownTimeoutMs: 10_000,
      media: {
        limits: {
          ...{ connectTimeoutMs: 3_000, headersTimeoutMs: 5_000, idleTimeoutMs: 5_000 },
          globalMaxDownloads: 64,
          ...{ globalMaxQueuedDownloads: 512, globalMaxBufferedBytes: 256 * 1024 * 1024 },
          maxImagePixels: 50_000_000,
        },
        ...{ nat64: 'block', allowHttpsDowngrade: false },
      },
      ceiling: {
        ...{ maxRedirects: 5, maxRetries: 1, downloadTimeoutMs: 10_000 },
        ...{ maxConcurrentDownloads: 10, allowPrivateNetworks: false },
        maxModalityBytes: { image: 10 * 1048576, audio: 25 * 1048576, video: 40 * 1048576 },
        ...{ maxTotalDownloadBytes: 48 * 1048576, contentCheck: 'sniff', allowedDomains: [] },
      },
    });
    expect(config.media.cache).toBeUndefined();
    expect(config.media).not.toHaveProperty('testOnlyAllowLoopback');
  });

  it('reads a file', () => {
    const { config } = load(`
listen: 127.0.0.1:9000
max_download_size: { image: 20 }
allowed_domains: [images.example.com, "*.cdn.example.com"]
blocked_cidrs: [203.0.113.0/24]
allowed_ports: [80, 443]
cache:
  enabled: true
  redis_url: redis://cache:6379
  max_value_mb: 2
  default_ttl: 1m
nat64:
`);
    expect(config.listen).toEqual({ host: '127.0.0.1', port: 9000 });
    expect(config.ceiling.maxModalityBytes?.image).toBe(20 * 1048576);
    expect(config.ceiling.allowedDomains.map(({ host }) => host)).toEqual([
      ...['images.example.com', 'cdn.example.com'],
    ]);
    expect(config.media).toMatchObject({
      ...{ blockedCidrs: ['203.0.113.0/24'], allowedPorts: [80, 443] },
      cache: {
        redisUrl: 'redis://cache:6379',
        redis: { maxValueBytes: 2 * 1048576 },
        rules: { defaultTtlMs: 60_000 },
      },
    });
  });

  it('lets flags win over variables, and those over the file', () => {
    const yaml = 'log_level: 1\nlisten: 127.0.0.1:1\ndownload_timeout: 1s\ncache: {memory_mb: 1}\n';
    const { config } = loadFetcherConfig(['--config', file(yaml), '--listen=127.0.0.1:3'], {
      ...{ MEDIA_LISTEN: '127.0.0.1:2', MEDIA_LOG_LEVEL: '4', MEDIA_CACHE_ENABLED: 'true' },
      ...{ MEDIA_ALLOWED_PORTS: '80,8080', MEDIA_ALLOWED_DOMAINS: 'a.org,.b.org' },
      ...{ MEDIA_MAX_REDIRECTS: '', MEDIA_FETCHER_SERVICE_HOST: '10.0.0.1' },
    });
    expect(config).toMatchObject({
      ...{ listen: { port: 3 }, logLevel: 4 },
      media: {
        ...{ allowedPorts: [80, 8080] },
        cache: { memory: { maxBytes: 1048576 } },
      },
      ceiling: { downloadTimeoutMs: 1_000, maxRedirects: 5 },
    });
    expect(config.ceiling.allowedDomains).toHaveLength(2);
  });

  it('takes its file from MEDIA_CONFIG', () => {
    const { config } = loadFetcherConfig([], { MEDIA_CONFIG: file('log_level: 5\n') });
    expect(config.logLevel).toBe(5);
  });

  it('warns of a variable that means nothing', () => {
    const { warnings } = loadFetcherConfig([], { MEDIA_CACHE_ENABLE: 'true' });
    expect(warnings).toEqual([
      'MEDIA_CACHE_ENABLE: unknown environment variable, did you mean MEDIA_CACHE_ENABLED?',
    ]);
  });

  it('has tokens from the variable and from a file', () => {
    const path = file('one\n\n  two \n', 'tokens');
    const { config } = loadFetcherConfig(['--listen', ':8083', '--token-file', path], {
      MEDIA_TOKENS: 'three',
    });
    for (const token of ['one', 'two', 'three']) {
      expect(config.tokens.accepts(`Bearer ${token}`)).toBe(true);
    }
    expect(config.tokens.accepts('Bearer four')).toBe(false);
  });

  it('uses the proxies of the environment', () => {
    const environment = { HTTPS_PROXY: 'http://user:pw@proxy:1', NO_PROXY: 'a.org' };
    expect(load('trust_remote_dns: true', environment).config.media.proxy).toMatchObject({
      ...{ httpsProxy: environment.HTTPS_PROXY, noProxy: 'a.org', trustRemoteDns: true },
    });
    expect(load('').config.media.proxy).toBeUndefined();
  });

  it('takes the secret of the cache from the variable that it names', () => {
    const secret = { MEDIA_CACHE_SECRET: 'abc' };
    const { config, warnings } = load('cache: {enabled: true}', secret);
    expect(config.media.cache?.secret).toBe('abc');
    expect(warnings).toEqual([]);
  });
});

describe('what does not start', () => {
  it.each([
    {
      name: 'a wide address without a token',
      yaml: 'listen: ":8083"',
      problem: /^listen: .*token/,
    },
    { name: 'an address', yaml: 'listen: here', problem: /^listen: expected an address/ },
    {
      name: 'an unknown key',
      yaml: 'cache: {enabld: true}',
      problem: /did you mean cache.enabled/,
    },
    { name: 'a time without a unit', yaml: 'download_timeout: 10', problem: /^download_timeout/ },
    { name: 'a size of 0', yaml: 'max_download_size: {image: 0}', problem: /image: expected/ },
    { name: 'a size of 384', yaml: 'max_download_size: {image: 384}', problem: /1 to 383/ },
    { name: 'a size of 8.5', yaml: 'max_download_size: {image: 8.5}', problem: /whole number/ },
    { name: 'a host as number', yaml: 'allowed_domains: [123]', problem: /^allowed_domains/ },
    { name: 'a bare wildcard', yaml: 'allowed_domains: ["*"]', problem: /^allowed_domains/ },
    { name: 'a switch', yaml: 'allow_private_networks: "yes"', problem: /true or false/ },
    { name: 'a port', yaml: 'allowed_ports: [0]', problem: /^allowed_ports/ },
    { name: 'a list', yaml: '- a', problem: /a mapping of keys/ },
    { name: 'no YAML', yaml: 'a: [', problem: /not valid YAML: [^\n]*$/ },
    { name: 'blocked hosts', yaml: 'blocked_domains: ["*"]', problem: /^blocked_domains/ },
    { name: 'no token file', yaml: 'token_file: /nowhere', problem: /^token_file: cannot be read/ },
  ])('$name', ({ yaml, problem }) => {
    expect(problemsOf(() => load(yaml)).join('\n')).toMatch(problem);
  });

  it.each([
    { argv: ['--lisen', 'x'], problem: '--lisen: unknown flag, did you mean --listen?' },
    { argv: ['--listen'], problem: '--listen: expected a value, got nothing' },
    { argv: ['x'], problem: 'command line: expected flags such as --config, got "x"' },
  ])('$argv', ({ argv, problem }) => {
    expect(problemsOf(() => loadFetcherConfig(argv, {}))).toEqual([problem]);
  });

  it('never repeats a token', () => {
    const problems = problemsOf(() => load('tokens: [{a: SECRET}]'));
    expect(problems.join()).toMatch(/^tokens/);
    expect(problems.join()).not.toContain('SECRET');
  });
});

describe('docs/apps/media-fetcher.md', () => {
  const page = readFileSync(
    join(import.meta.dirname, '../../../docs/apps/media-fetcher.md'),
    'utf8',
  );
  const rows = page
    .slice(page.indexOf('## Configuration'))
    .split('\n')
    .filter((line) => line.startsWith('| `'));
  const firstCells = rows.map((row) => /^\| `([^`]+)`/.exec(row)?.[1] ?? '');
  const leaves = [...leavesOf(fetcherFile)];

  it('has a row for every key, with default and meaning, and none besides', () => {
    const keys = firstCells.filter((cell) => leavesOf(fetcherFile).has(cell));
    expect(keys).toEqual(leaves.map(([path]) => path));
    for (const [path, schema] of leaves) {
      const [, standard = '', meaning = ''] =
        rows.find((row) => row.startsWith(`| \`${path}\``))?.split(' | ') ?? [];
      const expected = defaultOf(schema);
      const row = { path, standard: standard.trim(), meaning: meaning.replace(/ *\|$/, '') };
      expect(row).toEqual({ path, standard: expected, meaning: schema.description });
    }
  });

  it('has every flag', () => {
    for (const name of Object.keys(fetcherFlags)) expect(page).toContain(`\`--${name} `);
  });

  it('has every metric, in the order of the registry, and none besides', async () => {
    const metrics = new FetcherMetrics();
    const fetcher = createMediaFetcher();
    const limits = { maxConcurrentRequests: 0, maxQueuedRequests: 0, queueTimeoutMs: 0 };
    metrics.watch(fetcher, new Admission({ ...limits, maxBodyBytesHeld: 1 }, 1));
    metrics.media.redisBecame('ok');
    await fetcher.close();
    const documented = firstCells.filter((cell) => /^media_[a-z_]+$/.test(cell));
    expect(documented).toEqual(metrics.registry.getMetricsAsArray().map(({ name }) => name));
  });
});

function defaultOf(schema: z.ZodType): string {
  const { defaultValue = '' } = schema.def as { defaultValue?: string | readonly string[] };
  const text =
    typeof defaultValue === 'object' ? `[${defaultValue.join(', ')}]` : `${defaultValue}`;
  return text === '' ? '' : `\`${text}\``;
}

it.each(Object.keys({ config: true, ...fetcherFlags }))('--help names --%s', (name) => {
  expect(helpText).toContain(`  --${name} `);
});
