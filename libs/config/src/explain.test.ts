import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { z } from 'zod';
import { describeParams } from './describe-params.ts';
import { explainConfig } from './explain.ts';
import { type ConfigSources, loadConfig } from './load-config.ts';
import { boolean, duration, integer, text } from './setting.ts';

let directory: string;

beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), 'config-'));
});

afterAll(() => {
  rmSync(directory, { recursive: true });
});

const schemas: Record<string, z.ZodType> = {
  render: z.strictObject({
    address: text,
    timeout: duration.prefault('30s'),
    secret: text.optional(),
  }),
  encode: z.strictObject({
    max_parallel: integer('a number', 1).prefault(8),
    use_openai_format: boolean.prefault(true),
    ec_connector: text.optional(),
    stale: z.undefined().optional(),
  }),
  decode: z.strictObject({}),
};

const paramsOf = (type: string) => {
  const schema = schemas[type];
  return schema && describeParams(schema);
};

function explain(yaml: string, sources: Partial<ConfigSources> = {}): string {
  const file = join(directory, 'coordinator.yaml');
  writeFileSync(file, yaml);
  return explainConfig(loadConfig({ file, ...sources }), paramsOf);
}

describe('explainConfig', () => {
  it('shows each value with where it comes from', () => {
    const explained = explain(
      `
log_level: 3
gateway: {address: "http://g", timeout: 5s}
server: {strip_request_headers: "x-a,x-b"}
pipeline:
  forward_response_headers: [x-1, x-2]
  wire: {era: seed}
  steps:
    - {type: render, params: {address: "http://r"}}
    - {type: encode, params: {colour: "a\\nb"}}
    - type: decode
`,
      {
        environment: {
          COORDINATOR_SERVER_READ_TIMEOUT: '1m',
          COORDINATOR_PIPELINE_PASSTHROUGH: 'false',
          COORDINATOR_PIPELINE_FORWARD_RESPONSE_HEADERS_1: 'x-3',
          COORDINATOR_PIPELINE_STEPS_0_PARAMS_TIMEOUT: '7s',
        },
        flags: { 'server.metrics_port': '0' },
      },
    );
    for (const line of [
      'log_level: 3 # file',
      'server:',
      '  listen_addr: :8080 # default',
      '  read_timeout: 1m # env COORDINATOR_SERVER_READ_TIMEOUT',
      '  metrics_port: 0 # flag',
      '  max_request_body_size: 64 # default',
      '  strip_request_headers: [x-a, x-b] # file',
      '  timeout: 5s # file',
      '  kv_connector: kv-shared-storage # default',
      '  passthrough: false # env COORDINATOR_PIPELINE_PASSTHROUGH',
      '  forward_response_headers: [x-1, x-3] # file, env COORDINATOR_PIPELINE_FORWARD_RESPONSE_HEADERS_1',
      '  wire:',
      '    era: seed # file',
      '    chat_tokens: true # default',
    ]) {
      expect(explained.split('\n')).toContain(line);
    }
    expect(explained.split('  steps:\n')[1]).toBe(`    - type: render # file
      params:
        address: http://r # file
        timeout: 7s # env COORDINATOR_PIPELINE_STEPS_0_PARAMS_TIMEOUT
    - type: encode # file
      params:
        max_parallel: 8 # default
        use_openai_format: true # pipeline.use_openai_format
        ec_connector: ec-shared-storage # pipeline.ec_connector
        colour: "a\\nb" # file, unknown
    - type: decode # file
`);
  });

  it('is a configuration with the same effect', () => {
    const yaml = `
gateway: {address: "http://g"}
pipeline: {steps: [{type: render, params: {address: "http://r", timeout: 0s}}, {type: decode}]}
`;
    const environment = { COORDINATOR_LOG_LEVEL: '5', COORDINATOR_TRACING: 't' };
    const explained = explain(yaml, { environment });
    const file = join(directory, 'explained.yaml');
    writeFileSync(file, explained);
    const { config } = loadConfig({ file, strict: true });
    writeFileSync(join(directory, 'given.yaml'), yaml);
    const { config: expected } = loadConfig({ file: join(directory, 'given.yaml'), environment });
    expect({ ...config, pipeline: { ...config.pipeline, steps: [] } }).toEqual({
      ...expected,
      pipeline: { ...expected.pipeline, steps: [] },
    });
    expect(config.pipeline.steps[0]).toEqual({
      type: 'render',
      params: { address: 'http://r', timeout: '0s' },
    });
  });

  it('masks what is secret, wherever it comes from', () => {
    const explained = explain(
      'gateway: {address: "http://user:geheim@g"}\npipeline: {steps: [{type: render, params: {address: x, secret: geheim, headers: {authorization: geheim}}}]}',
      { environment: { COORDINATOR_PIPELINE_STEPS_0_PARAMS_ADDRESS: 'http://r?api_key=geheim' } },
    );
    expect(explained).not.toContain('geheim');
    expect(explained).toContain('  address: http://***@g # file\n');
    expect(explained).toContain('        secret: "***" # file\n');
  });

  it('shows an empty list of steps', () => {
    expect(explain('gateway: {address: "http://g"}')).toMatch(/\n {2}steps: \[\] # default\n$/);
  });
});
