import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { runCoordinator } from './run-coordinator.ts';

let directory: string;

beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), 'coordinator-'));
});

afterAll(() => {
  rmSync(directory, { recursive: true });
});

const steps = [{ type: 'decode' }];
const gateway = { address: 'http://127.0.0.1:9' };
const server = { listen_addr: '127.0.0.1:0', metrics_port: 0 };

/** Runs a coordinator in this process; `onLine` sees every log line as it comes. */
async function run(
  config: object,
  argv: readonly string[] = [],
  onLine: (line: Record<string, unknown>) => void = () => {},
  environment: Record<string, string> = {},
) {
  const file = join(directory, 'coordinator.yaml');
  writeFileSync(file, JSON.stringify(config));
  let errors = '';
  const lines: Record<string, unknown>[] = [];
  const exitCode = await runCoordinator({
    argv: ['--config', file, ...argv],
    environment,
    output: { write() {} },
    errors: {
      write: (text) => {
        errors += text;
      },
    },
    logDestination: {
      write: (text) => {
        const line = JSON.parse(text) as Record<string, unknown>;
        lines.push(line);
        onLine(line);
      },
    },
  });
  return { exitCode, errors, lines };
}

/** Sends the signal when the coordinator listens. */
const stopWhenListening = (line: Record<string, unknown>): void => {
  if (line['msg'] === 'listening') setImmediate(() => process.emit('SIGTERM', 'SIGTERM'));
};

/** A port of every interface that nothing listens on. */
async function freePort(): Promise<{ port: number; server: Server }> {
  const holder = createServer().listen(0);
  await once(holder, 'listening');
  return { port: (holder.address() as AddressInfo).port, server: holder };
}

describe('the metrics listener of a process', () => {
  it('answers scrapes on its own port, with the metrics of the process', async () => {
    const { port, server: holder } = await freePort();
    holder.close();
    await once(holder, 'close');
    let text = Promise.resolve('');
    const config = { server: { ...server, metrics_port: port }, gateway, pipeline: { steps } };
    const { exitCode, lines } = await run(config, [], (line) => {
      if (line['msg'] !== 'listening') return;
      text = fetch(`http://127.0.0.1:${port}/metrics`).then((answer) => answer.text());
      void text.finally(() => process.emit('SIGTERM', 'SIGTERM'));
    });
    expect(await text).toContain('# TYPE llm_d_coordinator_request_total counter');
    expect(await text).toContain('process_resident_memory_bytes');
    expect(exitCode).toBe(0);
    expect(lines[1]).toMatchObject({ msg: 'metrics listener', port, tls: false });
  });

  it('that cannot be bound ends the process with 1 and is named', async () => {
    const { port, server: holder } = await freePort();
    const config = { server: { ...server, metrics_port: port }, gateway, pipeline: { steps } };
    const { exitCode, lines } = await run(config);
    holder.close();
    expect(exitCode).toBe(1);
    expect(lines.at(-1)).toMatchObject({
      level: 'fatal',
      msg: `cannot listen on server.metrics_port ${port}: the port is in use`,
    });
  });
});

describe('a coordinator process', () => {
  it('says what it starts with and where it listens, and ends with 0 on SIGTERM', async () => {
    const { exitCode, lines } = await run(
      { server: { ...server, debug_addr: '127.0.0.1:0' }, gateway, pipeline: { steps } },
      [],
      stopWhenListening,
    );
    expect(exitCode).toBe(0);
    expect(lines.map((line) => line['msg'])).toEqual([
      'starting',
      'debug listener',
      'listening',
      'SIGTERM, draining for up to 25000 ms',
      'stopped',
    ]);
    expect(lines[0]).toMatchObject({ steps: ['decode'], kv_connector: 'kv-shared-storage' });
    expect(lines[2]?.['address']).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
  });

  it.each([
    { port: '9100', errors: [] },
    { port: '', errors: [] },
    { port: 'SECRET', errors: ['SGLANG_BOOTSTRAP_PORT: expected a port, 8998 is used'] },
  ])('starts with the bootstrap port $port', async ({ port, errors }) => {
    const { exitCode, lines } = await run(
      { server, gateway, pipeline: { steps } },
      [],
      stopWhenListening,
      {
        SGLANG_BOOTSTRAP_PORT: port,
      },
    );
    expect(exitCode).toBe(0);
    expect(lines.filter(({ level }) => level === 'error').map(({ msg }) => msg)).toEqual(errors);
  });

  it('warns of unknown keys and step params, with the nearest known name', async () => {
    const config = {
      server: { ...server, read_timout: '5s' },
      gateway,
      pipeline: { steps: [{ type: 'decode', params: { kv_conector: 'x' } }] },
    };
    const { lines } = await run(config, ['--zap-devel'], stopWhenListening);
    expect(lines.filter(({ level }) => level === 'warn').map(({ msg }) => msg)).toEqual([
      'server.read_timout: unknown key, did you mean read_timeout?',
      'pipeline.steps: decode: kv_conector: unknown key, did you mean kv_connector?',
      '--zap-devel: has no effect',
    ]);
  });

  it.each([
    {
      name: 'an unknown key when strict',
      config: { server: { ...server, colour: 'red' }, gateway, pipeline: { steps } },
      argv: ['--strict-config'],
      errors: 'coordinator: server.colour: unknown key\n',
    },
    {
      name: 'an unknown step param when strict',
      config: { server, gateway, pipeline: { steps: [{ type: 'decode', params: { x: 1 } }] } },
      argv: ['--strict-config'],
      errors: 'coordinator: pipeline.steps: decode: x: unknown key\n',
    },
    {
      name: 'an unknown flag',
      config: {},
      argv: ['--colour'],
      errors: 'coordinator: --colour: unknown flag\n',
    },
    {
      name: 'an unknown step',
      config: { server, gateway, pipeline: { steps: [{ type: 'dekode' }] } },
      errors: /^coordinator: unknown step type "dekode", known are: .*decode/,
    },
    {
      name: 'no steps',
      config: { server, gateway },
      errors: /^coordinator: pipeline\.steps: expected /,
    },
    {
      name: 'an unknown connector',
      config: { server, gateway, pipeline: { kv_connector: 'kv-x', steps } },
      errors: /^coordinator: .*kv_connector: expected one of .*got "kv-x"/,
    },
    {
      name: 'a listen address without a port',
      config: { server: { listen_addr: 'localhost' }, gateway, pipeline: { steps } },
      errors:
        'coordinator: server.listen_addr: expected an address such as :8080 or 127.0.0.1:8080, got "localhost"\n',
    },
    {
      name: 'a metrics directory without a certificate',
      config: {
        server: { ...server, metrics_port: 9_090, metrics_cert_dir: '/nowhere' },
        gateway,
        pipeline: { steps },
      },
      errors:
        /^coordinator: server\.metrics_cert_dir: expected a directory with tls\.crt and tls\.key that belong together, got "\/nowhere": ENOENT/,
    },
    {
      name: 'a debug address that others can reach',
      config: { server: { ...server, debug_addr: ':6060' }, gateway, pipeline: { steps } },
      errors: 'coordinator: server.debug_addr: expected a loopback address, got ":6060"\n',
    },
    {
      name: 'a forwarded header that no leg may carry',
      config: {
        server,
        gateway,
        pipeline: { forward_response_headers: ['Content-Type', 'x-ok'], steps },
      },
      errors:
        'coordinator: pipeline.forward_response_headers: expected headers that legs may carry, got "content-type"\n',
    },
  ])('does not start with $name', async ({ config, argv = [], errors }) => {
    const result = await run(config, argv);
    expect(result.exitCode).toBe(1);
    if (typeof errors === 'string') expect(result.errors).toBe(errors);
    else expect(result.errors).toMatch(errors);
    expect(result.lines).toEqual([]);
  });
});
