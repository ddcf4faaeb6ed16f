import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';

import { loadShimConfig, sources } from './config.ts';
import { helpText } from './help.ts';

let directory: string;

beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), 'render-shim-'));
});

afterAll(() => {
  rmSync(directory, { recursive: true });
});

function file(yaml: string): string {
  const path = join(directory, 'shim.yaml');
  writeFileSync(path, yaml);
  return path;
}

describe('the configuration', () => {
  it('has defaults for everything', () => {
    expect(loadShimConfig([], {})).toEqual({
      listen: { port: 8080 },
      logLevel: 2,
      maxBodyBytes: 67_108_864,
      readTimeoutMs: 30_000,
      shutdownTimeoutMs: 30_000,
      drainDelayMs: 0,
      bearerTokens: [],
      strictHttp: false,
      requestTimeoutMs: 30_000,
      mediaTimeoutMs: 60_000,
      workers: {
        queue: 256,
        memoryBytes: 1_073_741_824,
        cache: { tokenBytes: 67_108_864, tensorBytes: 0 },
      },
      models: [
        {
          mode: 'embedded',
          profile: { maxImages: 32, maxImagePixels: 50_000_000, maxCharactersPerToken: 16 },
        },
      ],
    });
  });

  it('reads a file, with paths that count from the file', () => {
    const path = file(`
listen: 127.0.0.1:9000
drain_delay: 5s
strict_http: true
limits: { max_prompt_chars_per_token: 8, max_body_bytes: 1000, max_images: 2, max_queue: 3, mem_budget_mb: 2 }
cache: { tenant_header: X-Tenant }
workers: { text: 2, image: auto }
models:
  - id: big
    aliases: [small]
    profile: ./profiles/big
    hash: { model_id: org/big, algorithm: sha256, scheme: nested }
    max_model_len: 4096
    pixel_dtype: bfloat16
    kwargs_layout: list
    bos: never
    enable_auto_tool_choice: false
    default_chat_template_kwargs: { enable_thinking: false, depth: 3 }
`);
    expect(loadShimConfig(['--config', path], {})).toMatchObject({
      listen: { host: '127.0.0.1', port: 9000 },
      drainDelayMs: 5_000,
      maxBodyBytes: 1000,
      tenantHeader: 'x-tenant',
      strictHttp: true,
      workers: { queue: 3, text: 2, memoryBytes: 2_097_152 },
      models: [
        {
          mode: 'embedded',
          profile: {
            servedModelNames: ['big', 'small'],
            directory: join(directory, 'profiles/big'),
            hashModelId: 'org/big',
            hashAlgorithm: 'sha256',
            hashScheme: 'nested',
            maxModelLen: 4096,
            bos: 'never',
            pixelDtype: 'bfloat16',
            kwargsLayout: 'list',
            enableAutoToolChoice: false,
            maxImages: 2,
            maxCharactersPerToken: 8,
            defaultChatTemplateKwargs: new Map<string, unknown>([
              ['enable_thinking', false],
              ['depth', 3n],
            ]),
          },
        },
      ],
    });
  });

  it('reads several models, each in its mode', () => {
    const path = file(`
models:
  - { id: here }
  - { id: there, mode: proxy, upstreams: ['http://a:8000', 'http://b:8000/v'], upstream_model: org/there }
  - { id: both, mode: fallback, profile: ./both, upstreams: ['http://a:8000'], normalise: full }
`);
    expect(loadShimConfig(['--config', path], {}).models).toMatchObject([
      { mode: 'embedded', profile: { servedModelNames: ['here'] } },
      {
        mode: 'proxy',
        upstream: {
          ids: ['there'],
          addresses: ['http://a:8000', 'http://b:8000/v'],
          model: 'org/there',
          normalise: 'light',
          timeoutMs: 60_000,
        },
      },
      {
        mode: 'fallback',
        profile: { directory: join(directory, 'both') },
        upstream: { normalise: 'full' },
      },
    ]);
  });

  it('lets flags win over variables, and variables over the file', () => {
    const path = file('listen: 127.0.0.1:1\nlog_level: 1\n');
    const config = loadShimConfig(
      ['--listen=127.0.0.1:3', '--served-model-name', 'a', '--served-model-name', 'b'],
      { SHIM_CONFIG: path, SHIM_LISTEN: '127.0.0.1:2', SHIM_LOG_LEVEL: '4' },
    );
    expect(config).toMatchObject({
      listen: { port: 3 },
      logLevel: 4,
      models: [{ profile: { servedModelNames: ['a', 'b'] } }],
    });
  });

  it.each([
    {
      name: 'an unknown flag',
      args: ['--lisen', 'x'],
      problem: /--lisen: unknown flag, did you mean --listen\?/,
    },
    { name: 'a flag without a value', args: ['--listen'], problem: /--listen: expected a value/ },
    { name: 'a word', args: ['x'], problem: /command line: expected flags/ },
    {
      name: 'a bad address',
      args: ['--listen', 'nowhere'],
      problem: /listen: expected an address/,
    },
    { name: 'a missing file', args: ['--config', '/no/such/file'], problem: /cannot be read/ },
  ])('refuses $name', ({ args, problem }) => {
    expect(() => loadShimConfig(args, {})).toThrow(problem);
  });

  it('refuses flags for one model when there are several', () => {
    const path = file('models: [{ id: a }, { id: b }]');
    expect(() => loadShimConfig(['--config', path, '--profile', 'x'], {})).toThrow(
      /--profile: works only with a single embedded model/,
    );
  });

  it.each([
    { name: 'an unknown key', yaml: 'lisen: x', problem: /lisen: unknown key/ },
    {
      name: 'an unknown key of a model',
      yaml: 'models: [{ nam: x }]',
      problem: /models\.0\.nam: unknown key/,
    },
    {
      name: 'an unknown mode',
      yaml: 'models: [{ mode: magic }]',
      problem: /models\.0\.mode: expected one of embedded, proxy, fallback/,
    },
    {
      name: 'a proxy without upstreams',
      yaml: 'models: [{ id: a, mode: proxy }]',
      problem: /models\.0\.upstreams: expected at least one address for the mode proxy/,
    },
    {
      name: 'a proxy without a name',
      yaml: "models: [{ mode: proxy, upstreams: ['http://a'] }]",
      problem: /models\.0\.id: expected a name/,
    },
    {
      name: 'an address that is none',
      yaml: 'models: [{ id: a, mode: proxy, upstreams: [redis://a] }]',
      problem: /models\.0\.upstreams\.0: expected an address such as http/,
    },
    {
      name: 'a number of workers that is none',
      yaml: 'workers: { text: many }',
      problem: /workers\.text: expected auto, or a positive number/,
    },
    { name: 'a list', yaml: '[1]', problem: /expected a mapping of keys/ },
    { name: 'broken YAML', yaml: '{', problem: /not valid YAML: [^\n]*$/ },
  ])('refuses $name in the file', ({ yaml, problem }) => {
    expect(() => loadShimConfig(['--config', file(yaml)], {})).toThrow(problem);
  });
});

it.each(Object.keys(sources))('--help names --%s', (name) => {
  expect(helpText).toContain(`  --${name} `);
});
