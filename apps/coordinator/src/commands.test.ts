import { readdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { scriptedServer } from '@llm-d/testing';
import { runCoordinator } from './run-coordinator.ts';

const testdata = join(import.meta.dirname, 'testdata');

let directory: string;

beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), 'coordinator-'));
});

afterAll(() => {
  rmSync(directory, { recursive: true });
});

/** Runs a command and collects what it prints. */
async function run(argv: readonly string[], environment: Record<string, string> = {}) {
  let [output, errors] = ['', ''];
  const exitCode = await runCoordinator({
    argv,
    environment,
    output: { write: (text) => (output += text) },
    errors: { write: (text) => (errors += text) },
    logDestination: { write: (line) => (output += line) },
  });
  return { exitCode, output, errors };
}

function write(yaml: string): string {
  const file = join(directory, 'coordinator.yaml');
  writeFileSync(file, yaml);
  return file;
}

describe('coordinator validate', () => {
  const shapes = readdirSync(testdata).filter((file) => file.endsWith('.yaml'));

  it.each(shapes)('accepts the shape of %s without a warning, strictly too', async (name) => {
    const file = join(testdata, name);
    const valid = { exitCode: 0, output: `${file}: valid\n`, errors: '' };
    expect(await run(['validate', file])).toEqual(valid);
    expect(await run(['validate', file, '--strict-config'])).toEqual(valid);
  });

  it('accepts the example of the compose stack', async () => {
    const file = join(import.meta.dirname, '../../../deploy/compose/coordinator.yaml');
    expect(await run(['validate', file, '--strict-config'])).toMatchObject({ exitCode: 0 });
  });

  it('tells of unknown keys, parameters and variables, and does not mind them', async () => {
    const file = write(
      'gateway: {address: "http://g", timout: 5s}\npipeline: {steps: [{type: decode, params: {kv_conector: x}}]}',
    );
    expect(await run(['validate', file], { COORDINATOR_LOG_LEVL: '3' })).toEqual({
      exitCode: 0,
      output: `${file}: valid\n`,
      errors: [
        'warning: gateway.timout: unknown key, did you mean timeout?',
        'warning: COORDINATOR_LOG_LEVL: unknown environment variable, did you mean COORDINATOR_LOG_LEVEL?',
        'warning: pipeline.steps: decode: kv_conector: unknown key, did you mean kv_connector?',
        '',
      ].join('\n'),
    });
  });

  it('minds them when strict', async () => {
    const file = write(
      'gateway: {address: "http://g", timout: 5s}\npipeline: {steps: [{type: decode}]}',
    );
    expect(await run(['validate', file, '--strict-config'])).toEqual({
      exitCode: 1,
      output: '',
      errors: 'coordinator: gateway.timout: unknown key, did you mean timeout?\n',
    });
  });

  it.each([
    {
      name: 'a value',
      yaml: 'log_level: 9',
      problem: 'log_level: expected a level from 1 to 5, got 9',
    },
    {
      name: 'a listen address',
      yaml: 'server: {listen_addr: x}',
      problem: 'server.listen_addr: expected an address such as :8080 or 127.0.0.1:8080, got "x"',
    },
    {
      name: 'a parameter, without its secrets',
      yaml: 'pipeline: {steps: [{type: render, params: {address: "htp://u:geheim@r"}}, {type: decode}]}',
      problem:
        'render: address: expected an http address such as http://render:8000, got "htp://***@r"',
    },
    {
      name: 'the order of the steps',
      yaml: 'pipeline: {use_openai_format: false, steps: [{type: prefill}, {type: decode}]}',
      problem:
        'pipeline.steps: prefill has use_openai_format: false and needs a render step before it',
    },
  ])('refuses $name as a start would', async ({ yaml, problem }) => {
    const file = write(`gateway: {address: "http://g"}\n${yaml}`);
    const { exitCode, output, errors } = await run(['validate', file]);
    expect({ exitCode, output }).toEqual({ exitCode: 1, output: '' });
    expect(errors).toBe(`coordinator: ${problem}\n`);
  });

  it('opens no connection', async () => {
    const upstream = await scriptedServer();
    const yaml = `gateway: {address: "${upstream.url}"}
pipeline: {steps: [{type: render, params: {address: "${upstream.url}"}}, {type: decode}]}`;
    expect((await run(['validate', write(yaml)])).exitCode).toBe(0);
    await upstream.close();
    expect(upstream.connectionCount).toBe(0);
  });
});

describe('coordinator explain', () => {
  it('prints the configuration in effect, without secrets, and warnings apart from it', async () => {
    const file = write(
      'gateway: {address: "http://u:geheim@g", timout: 5s}\npipeline: {steps: [{type: decode}]}',
    );
    const { exitCode, output, errors } = await run(['explain', file, '-v', '4'], {
      COORDINATOR_GATEWAY_TIMEOUT: '7s',
    });
    expect(exitCode).toBe(0);
    expect(errors).toBe('warning: gateway.timout: unknown key, did you mean timeout?\n');
    expect(output).not.toContain('geheim');
    expect(output.split('\n')).toEqual(
      expect.arrayContaining([
        'log_level: 4 # flag',
        '  address: http://***@g # file',
        '  timeout: 7s # env COORDINATOR_GATEWAY_TIMEOUT',
        '        kv_connector: kv-shared-storage # pipeline.kv_connector',
      ]),
    );
  });

  it('has the parameters of every kind of step with their defaults', async () => {
    const { output } = await run(['explain', join(testdata, 'seed.yaml')]);
    expect(output).toContain('        max_download_size: 10 # default\n');
    expect(output).toContain('        max_parallel: 8 # file\n');
  });

  it('tells of the flag when there is no file where one is looked for', async () => {
    expect(await run(['explain'])).toEqual({
      exitCode: 1,
      output: '',
      errors:
        'coordinator: config/coordinator/coordinator.yaml: does not exist, --config FILE names another\n',
    });
  });

  it('fails with the problems of a configuration that cannot be read', async () => {
    expect(await run(['explain', write('gateway: {timeout: 5}')])).toEqual({
      exitCode: 1,
      output: '',
      errors: [
        'coordinator: gateway.address: expected an http address with a host, such as http://gateway, got nothing',
        'coordinator: gateway.timeout: expected a duration such as 30s, got 5',
        '',
      ].join('\n'),
    });
  });
});

describe('coordinator --help and --version', () => {
  it('print and end', async () => {
    const help = await run(['--help']);
    expect(help).toMatchObject({ exitCode: 0, errors: '' });
    expect(help.output).toMatch(/^Usage:\n {2}coordinator \[FLAGS\] /);
    const version = await run(['--version']);
    expect(version).toEqual({
      exitCode: 0,
      output: `coordinator 0.0.0, Node ${process.version}\n`,
      errors: '',
    });
  });
});
