import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { ConfigError } from './config-error.ts';
import { type ConfigSources, loadConfig } from './load-config.ts';

let directory: string;

beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), 'config-'));
});

afterAll(() => {
  rmSync(directory, { recursive: true });
});

const prefix = 'COORDINATOR_PIPELINE';

/** Loads a YAML text with variables, whose names are given without `COORDINATOR_PIPELINE`. */
function load(
  yaml: string,
  variables: Record<string, string>,
  flags: NonNullable<ConfigSources['flags']> = {},
) {
  const file = join(directory, 'coordinator.yaml');
  writeFileSync(file, `gateway: {address: http://g}\n${yaml}`);
  const environment = Object.fromEntries(
    Object.entries(variables).map(([name, value]) => [
      name.startsWith('_') ? `${prefix}${name}` : name,
      value,
    ]),
  );
  return loadConfig({ file, environment, flags });
}

const twoSteps =
  'pipeline: {steps: [{type: render, params: {address: "http://a", timeout: 5s}}, {type: decode}]}';

describe('elements of a list of texts', () => {
  const path = 'pipeline.forward_response_headers';
  const headers = (yaml: string, variables: Record<string, string>) =>
    load(yaml, variables).config.pipeline.forwardResponseHeaders;

  it.each([
    { name: 'of the default', yaml: '', given: { _0: 'x-a' }, expected: ['x-a'] },
    {
      name: 'after the default',
      yaml: '',
      given: { _1: 'x-b' },
      expected: ['x-llm-d-disagg-revision', 'x-b'],
    },
    {
      name: 'of the file',
      yaml: 'pipeline: {forward_response_headers: [x-a, x-b]}',
      given: { _1: 'x-c' },
      expected: ['x-a', 'x-c'],
    },
    {
      name: 'of a text of the file',
      yaml: 'pipeline: {forward_response_headers: "x-a,x-b"}',
      given: { _0: 'x-c' },
      expected: ['x-c', 'x-b'],
    },
    {
      name: 'of the whole list in the environment',
      yaml: 'pipeline: {forward_response_headers: [x-a]}',
      given: { '': 'x-1,x-2', _1: 'x-3', _2: 'x-4', _3: '' },
      expected: ['x-1', 'x-3', 'x-4'],
    },
    {
      name: 'in the order of numbers, not of names',
      yaml: '',
      given: Object.fromEntries([10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0].map((i) => [`_${i}`, `x-${i}`])),
      expected: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10].map((i) => `x-${i}`),
    },
  ])('are set by index: $name', ({ yaml, given, expected }) => {
    const variables = Object.fromEntries(
      Object.entries(given).map(([name, value]) => [`_FORWARD_RESPONSE_HEADERS${name}`, value]),
    );
    expect(headers(yaml, variables)).toEqual(expected);
  });

  it('do not touch a list that a flag gives', () => {
    const name = 'COORDINATOR_SERVER_TLS_CIPHER_SUITES_0';
    const suite = 'TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256';
    const { origins, given } = load('', { [name]: 'a' }, { 'server.tls_cipher_suites': suite });
    expect(given['server']).toEqual({ tls_cipher_suites: suite });
    expect(origins.get('server.tls_cipher_suites')).toBe('flag');
  });

  it('are refused behind a gap', () => {
    expect(() => load('', { _FORWARD_RESPONSE_HEADERS_2: 'x-a' })).toThrow(
      `${prefix}_FORWARD_RESPONSE_HEADERS_2: expected an index from 0 to 1, got 2`,
    );
  });

  it('are told as an origin next to that of the rest', () => {
    const yaml = 'pipeline: {forward_response_headers: [x-a, x-b]}';
    const { origins } = load(yaml, { _FORWARD_RESPONSE_HEADERS_0: 'x-c' });
    expect(origins.get(path)).toBe(`file, env ${prefix}_FORWARD_RESPONSE_HEADERS_0`);
  });
});

describe('steps in the environment', () => {
  it('set type and params by index, with the types that the file would give them', () => {
    const { config, warnings } = load(twoSteps, {
      _STEPS_0_PARAMS_ADDRESS: 'http://b:80/x',
      _STEPS_0_PARAMS_MAX_TOTAL_TOKENS: '8',
      _STEPS_1_TYPE: 'encode',
      _STEPS_1_PARAMS_LIST: '[a, b]',
      _STEPS_1_PARAMS_ON: 'true',
      _STEPS_1_PARAMS_COLOUR: '#fff',
      _STEPS_1_PARAMS_TEXT: '"5"',
      _STEPS_1_PARAMS_ODD: '@a: [',
      _STEPS_2_TYPE: 'decode',
    });
    expect(warnings).toEqual([]);
    expect(config.pipeline.steps).toEqual([
      { type: 'render', params: { address: 'http://b:80/x', timeout: '5s', max_total_tokens: 8 } },
      {
        type: 'encode',
        params: { list: ['a', 'b'], on: true, colour: '#fff', text: '5', odd: '@a: [' },
      },
      { type: 'decode', params: {} },
    ]);
  });

  it('can be given whole, and then by field', () => {
    const { config, warnings, origins } = load(twoSteps, {
      _STEPS: '[{Type: render, parms: {}}, {type: decode}]',
      _STEPS_0_PARAMS_ADDRESS: 'http://b',
    });
    expect(warnings).toEqual(['pipeline.steps[0].parms: unknown key, did you mean params?']);
    expect(config.pipeline.steps).toEqual([
      { type: 'render', params: { address: 'http://b' } },
      { type: 'decode', params: {} },
    ]);
    expect(origins.get('pipeline.steps[0].type')).toBe(`env ${prefix}_STEPS`);
    expect(origins.has('pipeline.steps[0].params.timeout')).toBe(false);
  });

  it('have the origin of each field', () => {
    const { origins } = load(twoSteps, { _STEPS_0_PARAMS_TIMEOUT: '7s' });
    expect(Object.fromEntries(origins)).toEqual({
      'gateway.address': 'file',
      'pipeline.steps[0].type': 'file',
      'pipeline.steps[0].params.address': 'file',
      'pipeline.steps[0].params.timeout': `env ${prefix}_STEPS_0_PARAMS_TIMEOUT`,
      'pipeline.steps[1].type': 'file',
    });
  });

  it.each([
    {
      given: { _STEPS: 'render' },
      problem: 'pipeline.steps: expected a list of steps, got "render"',
    },
    {
      given: { _STEPS_0_PARAMS_X: '1' },
      problem: 'pipeline.steps[0].type: expected the name of a step, got nothing',
    },
    {
      given: { _STEPS_1_TYPE: 'a' },
      problem: `${prefix}_STEPS_1_TYPE: expected an index from 0 to 0, got 1`,
    },
  ])('are refused like those of the file: $problem', ({ given, problem }) => {
    expect(() => load('', given)).toThrow(new ConfigError([problem]));
  });

  it.each([
    ['_STEPS_0_TYP', '_STEPS_0_TYPE'],
    ['_STEP_0_TYPE', '_STEPS_0_TYPE'],
    ['_STEPS_3_PARMS_ADDRESS', '_STEPS_3_PARAMS_NAME'],
    ['_FORWARD_RESPONSE_HEADER_0', '_FORWARD_RESPONSE_HEADERS_0'],
    ['_FORWARD_RESPONSE_HEADERS_0_TYPE', '_FORWARD_RESPONSE_HEADERS_0'],
  ])('of an unknown name (%s) are warned of with the nearest one', (name, nearest) => {
    expect(load(twoSteps, { [name]: 'x' }).warnings).toEqual([
      `${prefix}${name}: unknown environment variable, did you mean ${prefix}${nearest}?`,
    ]);
  });
});
