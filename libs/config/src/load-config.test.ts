import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { type ConfigError } from './config-error.ts';
import { configKeys } from './keys.ts';
import { type ConfigSources, loadConfig } from './load-config.ts';

let directory: string;

beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), 'config-'));
});

afterAll(() => {
  rmSync(directory, { recursive: true });
});

/** Loads this YAML text on top of the one key that has no default. */
function load(yaml: string, sources: Partial<ConfigSources> = {}) {
  const file = join(directory, 'coordinator.yaml');
  writeFileSync(file, yaml);
  const environment = { COORDINATOR_GATEWAY_ADDRESS: 'http://gateway', ...sources.environment };
  return loadConfig({ ...sources, file, environment });
}

/** The problems that keep this YAML text from starting. */
function problemsOf(yaml: string, sources: Partial<ConfigSources> = {}): readonly string[] {
  try {
    load(yaml, sources);
  } catch (error) {
    return (error as ConfigError).problems;
  }
  return [];
}

describe('defaults', () => {
  it.each(['', '# nothing\n', 'server:\npipeline:\n'])('stand for everything in %p', (yaml) => {
    const { config, warnings } = load(yaml);
    expect({ config, warnings }).toEqual({
      warnings: [],
      config: {
        logLevel: 2,
        tracing: false,
        media: {
          user_agent: 'llm-media-fetcher/1.0',
          connect_timeout: 3_000,
          headers_timeout: 5_000,
          idle_timeout: 5_000,
          global_max_downloads: 64,
          global_max_queued_downloads: 512,
          global_max_buffered_mb: 256,
          allowed_private_cidrs: [],
          blocked_cidrs: [],
          blocked_domains: [],
          allowed_ports: [],
          allow_https_downgrade: false,
          origin_headers_file: '',
          nat64: 'block',
          trust_remote_dns: false,
          max_image_pixels: 50_000_000,
          cache: {
            enabled: false,
            redis_url: '',
            key_secret_env: 'MEDIA_CACHE_SECRET',
            namespace: '',
            memory_mb: 64,
            max_value_mb: 5,
            default_ttl: 300_000,
            max_ttl: 86_400_000,
            stale_while_revalidate: 30_000,
            stale_if_error: 300_000,
            negative: true,
            control_timeout: 200,
            blob_timeout: 1_000,
          },
        },
        server: {
          listenAddress: ':8080',
          metricsPort: 9090,
          isSecure: false,
          tls: { certificatePath: '', minVersion: undefined, cipherSuites: [] },
          metricsCertDirectory: '',
          readTimeoutMs: 30_000,
          idleTimeoutMs: 120_000,
          writeTimeoutMs: 120_000,
          shutdownTimeoutMs: 25_000,
          streamKeepAliveMs: 0,
          drainDelayMs: 0,
          maxRequestBodyBytes: 64 * 1024 * 1024,
          admission: {
            maxConcurrentRequests: 0,
            maxQueuedRequests: 100,
            queueTimeoutMs: 5_000,
            maxBodyBytesHeld: 0,
          },
          upstreamErrors: 'hide',
          stripRequestHeaders: [],
          keepRequestHeaders: [],
          debugAddress: '',
          hasReceipts: false,
          hasServerTiming: false,
        },
        gateway: {
          address: 'http://gateway',
          maxIdleConnectionsPerHost: 100,
          idleConnectionTimeoutMs: 90_000,
          timeoutMs: 60_000,
          streamIdleTimeoutMs: 300_000,
        },
        pipeline: {
          kvConnector: 'kv-shared-storage',
          ecConnector: 'ec-shared-storage',
          usesOpenAiFormat: true,
          forwardResponseHeaders: ['x-llm-d-disagg-revision'],
          kvLeaseMs: 30_000,
          kvMultiSequence: 'local',
          kvRelease: 'lease',
          trustsClientTransferParams: false,
          hasPassthrough: true,
          maxBatchSize: 128,
          maxBatchParallel: 16,
          wire: {
            era: 'newest',
            phaseHeader: 'EPP-Profile',
            generateTransferParams: 'top-level',
            hasChatTokens: false,
            legRequestId: 'shared',
            pinHeader: 'x-prefill-pin-host-port',
          },
          plugins: [],
          steps: [],
        },
      },
    });
  });

  it('of the wire follow the era, single switches win', () => {
    expect(load('pipeline: {wire: {era: seed}}').config.pipeline.wire).toMatchObject({
      generateTransferParams: 'extra-args',
      hasChatTokens: true,
    });
    expect(
      load('pipeline: {wire: {era: seed, chat_tokens: false}}').config.pipeline.wire,
    ).toMatchObject({ generateTransferParams: 'extra-args', hasChatTokens: false });
  });

  it('of TLS are read by the names of Go', () => {
    const yaml =
      'server: {secure_serving: true, cert_path: /c, tls_min_version: VersionTLS13, tls_cipher_suites: [TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256]}';
    expect(load(yaml).config.server).toMatchObject({
      isSecure: true,
      tls: {
        certificatePath: '/c',
        minVersion: 'TLSv1.3',
        cipherSuites: ['ECDHE-RSA-AES128-GCM-SHA256'],
      },
    });
  });

  it('replace a body cap of 0', () => {
    const { config } = load('server: {max_request_body_size: 0}');
    expect(config.server.maxRequestBodyBytes).toBe(64 * 1024 * 1024);
  });
});

describe('precedence', () => {
  const yaml = 'log_level: 3';
  const environment = { COORDINATOR_LOG_LEVEL: '4' };

  it('is flag, environment, file, default', () => {
    expect(load('').config.logLevel).toBe(2);
    expect(load(yaml).config.logLevel).toBe(3);
    expect(load(yaml, { environment }).config.logLevel).toBe(4);
    expect(load(yaml, { environment, flags: { log_level: '5' } }).config.logLevel).toBe(5);
  });

  it('ignores empty environment values', () => {
    expect(load(yaml, { environment: { COORDINATOR_LOG_LEVEL: '' } }).config.logLevel).toBe(3);
  });

  it('reaches every key, sections absent from the file included', () => {
    const { config } = load('', {
      environment: {
        COORDINATOR_SERVER_READ_TIMEOUT: '1m',
        COORDINATOR_SERVER_STRIP_REQUEST_HEADERS: 'X-A, x-b',
        COORDINATOR_PIPELINE_USE_OPENAI_FORMAT: 'false',
        COORDINATOR_PIPELINE_WIRE_CHAT_TOKENS: '1',
        COORDINATOR_PIPELINE_KV_CONNECTOR: 'kv-nixl',
      },
    });
    expect(config.server.readTimeoutMs).toBe(60_000);
    expect(config.server.stripRequestHeaders).toEqual(['x-a', 'x-b']);
    expect(config.pipeline).toMatchObject({ usesOpenAiFormat: false, kvConnector: 'kv-nixl' });
    expect(config.pipeline.wire.hasChatTokens).toBe(true);
  });

  it.each(configKeys)('lets $environmentName set $path', ({ path, environmentName }) => {
    // A text that many keys refuse: then the problem names the key.
    const environment = { [environmentName]: '0' };
    const problems = problemsOf('', { environment });
    if (problems.length > 0) expect(problems[0]).toMatch(`${path}: expected `);
    else expect(load('', { environment }).origins.get(path)).toBe(`env ${environmentName}`);
  });
});

describe('steps', () => {
  it('keep the YAML types of their params; absent or empty params are none', () => {
    const { config } = load(`
pipeline:
  steps:
    - type: a
      params: {timeout: 10s, count: 10, whole: 5.0, on: true, list: [x, y], nothing: null}
    - type: b
    - type: c
      params:
`);
    expect(config.pipeline.steps).toEqual([
      {
        type: 'a',
        params: { timeout: '10s', count: 10, whole: 5, on: true, list: ['x', 'y'], nothing: null },
      },
      { type: 'b', params: {} },
      { type: 'c', params: {} },
    ]);
  });
});

describe('the file', () => {
  it('may write key names in any case, use anchors and merge keys', () => {
    const { config, warnings } = load(`
LOG_LEVEL: 1
Server: &base {Listen_Addr: ":1"}
Gateway: {Address: &g "http://g:80"}
Pipeline: {Steps: [{Type: render, Params: {Address: *g}}, {type: decode, params: {<<: {a: 1}}}]}
`);
    expect(warnings).toEqual([]);
    expect(config.logLevel).toBe(1);
    expect(config.server.listenAddress).toBe(':1');
    expect(config.pipeline.steps).toEqual([
      { type: 'render', params: { address: 'http://g:80' } },
      { type: 'decode', params: { a: 1 } },
    ]);
  });

  it.each([
    {
      name: 'broken',
      yaml: 'server: [unclosed\n  x: {\n',
      problem: /^Implicit keys of flow sequence pairs .* at line 1, column 10$/,
    },
    {
      name: 'tabs',
      yaml: 'server:\n\tlisten_addr: x\n',
      problem: /^Tabs are not allowed as indentation at line 2, column 1$/,
    },
    {
      name: 'a key twice',
      yaml: 'log_level: 1\nlog_level: 2\n',
      problem: /^Map keys must be unique at line 2, column 1$/,
    },
  ])('is refused when it is $name, without a quotation of it', ({ yaml, problem }) => {
    const [found = '', ...others] = problemsOf(yaml);
    const prefix = `${join(directory, 'coordinator.yaml')}: not valid YAML: `;
    expect(found.slice(0, prefix.length)).toBe(prefix);
    expect(found.slice(prefix.length)).toMatch(problem);
    expect(others).toEqual([]);
  });

  it.each([
    { kind: 'list', yaml: '- a\n- b\n' },
    { kind: 'string', yaml: 'hello' },
  ])('is refused when it is a $kind', ({ kind, yaml }) => {
    const problem = `expected a mapping of keys, got a ${kind}`;
    expect(problemsOf(yaml)).toEqual([`${join(directory, 'coordinator.yaml')}: ${problem}`]);
  });

  it('is refused when it is missing', () => {
    const file = join(directory, 'none.yaml');
    const problem = `${file}: cannot be read: ENOENT: no such file or directory`;
    expect(() => loadConfig({ file })).toThrow(expect.objectContaining({ problems: [problem] }));
  });
});

describe('startup messages name key, expectation and value', () => {
  it.each([
    ['gateway: {timeout: "30"}', 'gateway.timeout: expected a duration such as 30s, got "30"'],
    ['gateway: {timeout: 30}', 'gateway.timeout: expected a duration such as 30s, got 30'],
    ['gateway: {timeout: -5s}', 'gateway.timeout: expected a duration such as 30s, got "-5s"'],
    [
      'server: {read_timeout: soon}',
      'server.read_timeout: expected a duration such as 30s, got "soon"',
    ],
    ['log_level: loud', 'log_level: expected a level from 1 to 5, got "loud"'],
    ['log_level: 6', 'log_level: expected a level from 1 to 5, got 6'],
    ['log_level: 2.5', 'log_level: expected a level from 1 to 5, got 2.5'],
    ['tracing: 1', 'tracing: expected true or false, got 1'],
    ['server: x', 'server: expected a mapping, got "x"'],
    [
      'server: {max_request_body_size: -1}',
      'server.max_request_body_size: expected a size in MB, got -1',
    ],
    [
      'server: {max_request_body_size: 8796093022208}',
      'server.max_request_body_size: expected a size in MB, got 8796093022208',
    ],
    ['server: {metrics_port: 65536}', 'server.metrics_port: expected a port, got 65536'],
    [
      'server: {upstream_errors: show}',
      'server.upstream_errors: expected one of hide, relay, got "show"',
    ],
    [
      'server: {keep_request_headers: [a, A]}',
      'server.keep_request_headers: expected a list of different header names, got ["a","A"]',
    ],
    [
      'server: {strip_request_headers: ["a b"]}',
      'server.strip_request_headers: expected a list of different header names, got ["a b"]',
    ],
    [
      'pipeline: {forward_response_headers: [" "]}',
      'pipeline.forward_response_headers: expected a list of different header names, got [" "]',
    ],
    [
      'gateway: {address: /nowhere}',
      'gateway.address: expected an http address with a host, such as http://gateway, got "/nowhere"',
    ],
    [
      'gateway: {address: "ftp://x"}',
      'gateway.address: expected an http address with a host, such as http://gateway, got "ftp://x"',
    ],
    [
      'gateway: {address: "http://user:50%@gateway"}',
      'gateway.address: expected user and password with % as %25, got "http://***@gateway"',
    ],
    [
      'gateway: {address: "http://gateway/a?b=c"}',
      'gateway.address: expected an address without query and fragment, got "http://gateway/a?b=c"',
    ],
    ['pipeline: {steps: render}', 'pipeline.steps: expected a list of steps, got "render"'],
    [
      'pipeline: {steps: [render]}',
      'pipeline.steps[0]: expected a step with a type and params, got "render"',
    ],
    [
      'pipeline: {steps: [{type: ""}]}',
      'pipeline.steps[0].type: expected the name of a step, got ""',
    ],
    ['pipeline: {steps: [{}]}', 'pipeline.steps[0].type: expected the name of a step, got nothing'],
    [
      'pipeline: {steps: [{type: a, params: 5}]}',
      'pipeline.steps[0].params: expected a mapping of parameters, got 5',
    ],
    [
      'pipeline: {use_openai_format: [true]}',
      'pipeline.use_openai_format: expected true or false, got [true]',
    ],
    ['pipeline: {wire: {era: old}}', 'pipeline.wire.era: expected one of newest, seed, got "old"'],
    [
      'pipeline: {wire: {phase_header: "a b"}}',
      'pipeline.wire.phase_header: expected a header name, got "a b"',
    ],
    [
      'server: {tls_min_version: TLS1.2}',
      'server.tls_min_version: expected one of VersionTLS10, VersionTLS11, VersionTLS12, VersionTLS13, got "TLS1.2"',
    ],
    [
      'server: {tls_cipher_suites: [TLS_AES_128_GCM_SHA256, TLS_NONE]}',
      'server.tls_cipher_suites: expected Go\'s names of cipher suites, such as TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, got ["TLS_AES_128_GCM_SHA256","TLS_NONE"]',
    ],
    [
      'server: {max_concurrent_requests: -1}',
      'server.max_concurrent_requests: expected a number of requests, 0 or more, got -1',
    ],
    [
      'server: {max_body_bytes_held: 1.5}',
      'server.max_body_bytes_held: expected a size in MB, got 1.5',
    ],
  ])('%s', (yaml, problem) => {
    const file = join(directory, 'problem.yaml');
    writeFileSync(file, yaml);
    const environment = yaml.includes('address') ? {} : { COORDINATOR_GATEWAY_ADDRESS: 'http://g' };
    expect(() => loadConfig({ file, environment })).toThrow(
      expect.objectContaining({ problems: [problem] }),
    );
  });

  it('for a missing gateway address', () => {
    const file = join(directory, 'problem.yaml');
    for (const yaml of ['', 'gateway: {address: null}', 'gateway:']) {
      writeFileSync(file, yaml);
      expect(() => loadConfig({ file })).toThrow(
        /^gateway\.address: expected an http .*got nothing$/,
      );
    }
  });

  it('for bad environment values', () => {
    const environment = {
      COORDINATOR_LOG_LEVEL: 'x',
      COORDINATOR_SERVER_READ_TIMEOUT: '5 minutes',
    };
    expect(problemsOf('', { environment })).toEqual([
      'log_level: expected a level from 1 to 5, got "x"',
      'server.read_timeout: expected a duration such as 30s, got "5 minutes"',
    ]);
  });

  it('without repeating a long value', () => {
    const [problem] = problemsOf(`log_level: ${'x'.repeat(1_000)}`);
    expect(problem?.length).toBeLessThan(150);
  });
});

describe('unknown keys', () => {
  it('stand beside what is missing, which may be there under a misspelt name', () => {
    const environment = { COORDINATOR_GATEWAY_ADDRESS: '' };
    expect(problemsOf('gateway: { addres: "http://gateway" }', { environment })).toEqual([
      'gateway.address: expected an http address with a host, such as http://gateway, got nothing',
      'gateway.addres: unknown key, did you mean address?',
    ]);
  });

  const yaml = `
future: {a: 1}
server: {colour: red, read_timout: 5s}
pipeline:
  wire: {phase-header: x}
  steps: [{type: render, parms: {}}]
`;
  const warnings = [
    'future: unknown key',
    'server.colour: unknown key',
    'server.read_timout: unknown key, did you mean read_timeout?',
    'pipeline.wire.phase-header: unknown key, did you mean phase_header?',
    'pipeline.steps[0].parms: unknown key, did you mean params?',
  ];

  it('are warnings at every level, with the nearest known name', () => {
    expect(load(yaml).warnings).toEqual(warnings);
  });

  it('are refused when strict', () => {
    expect(problemsOf(yaml, { strict: true })).toEqual(warnings);
  });

  it('in the environment are warned of, but not what Kubernetes sets for a service of this name', () => {
    const environment = {
      COORDINATOR_SERVER_READ_TIMOUT: '5s',
      COORDINATOR_PORT: 'tcp://10.0.0.1:8080',
      COORDINATOR_PORT_8080_TCP: 'tcp://10.0.0.1:8080',
      COORDINATOR_SERVICE_HOST: '10.0.0.1',
      OTHER: 'x',
    };
    expect(load('', { environment }).warnings).toEqual([
      'COORDINATOR_SERVER_READ_TIMOUT: unknown environment variable, did you mean COORDINATOR_SERVER_READ_TIMEOUT?',
    ]);
  });
});
