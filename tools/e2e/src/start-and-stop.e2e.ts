import { createServer, type AddressInfo } from 'node:net';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { scriptedServer, type ScriptedServer } from '@llm-d/testing';
import { ask, eventsOf, open } from './ask.ts';
import { addressOf, type CoordinatorProcess, runCoordinator } from './coordinator-process.ts';
import { chatOf } from './prompts.ts';
import { until } from './until.ts';

const gateway = { address: 'http://127.0.0.1:9' };
const steps = [{ type: 'decode' }];
const server = { listen_addr: '127.0.0.1:0', metrics_port: 0 };

const running: CoordinatorProcess[] = [];

function start(config: object, flags: readonly string[] = []): CoordinatorProcess {
  const coordinator = runCoordinator(config, flags);
  running.push(coordinator);
  return coordinator;
}

afterEach(async () => {
  for (const coordinator of running.splice(0)) {
    coordinator.signal('SIGKILL');
    await coordinator.exited;
  }
});

describe('the coordinator does not start', () => {
  it.each([
    {
      name: 'with a step that nobody knows',
      config: { server, gateway, pipeline: { steps: [{ type: 'dekode' }] } },
      message: /^coordinator: unknown step type "dekode", known are: .*\bdecode\b/,
    },
    {
      name: 'without an address of render',
      config: { server, gateway, pipeline: { steps: [{ type: 'render' }, ...steps] } },
      message:
        /^coordinator: render: address: expected an http address such as http:\/\/render:8000\n$/,
    },
    {
      name: 'without a gateway',
      config: { server, pipeline: { steps } },
      message: /^coordinator: gateway\.address: expected an http address .*, got nothing\n$/,
    },
    {
      name: 'with a misspelt key when it is strict',
      config: { server: { ...server, read_timout: '5s' }, gateway, pipeline: { steps } },
      flags: ['--strict-config'],
      message: /^coordinator: server\.read_timout: unknown key, did you mean read_timeout\?\n$/,
    },
    {
      name: 'with a value of the wrong type',
      config: { server: { ...server, read_timeout: 5 }, gateway, pipeline: { steps } },
      message: /^coordinator: server\.read_timeout: expected .*, got 5\n$/,
    },
  ])('$name', async ({ config, flags = [], message }) => {
    const coordinator = start(config, flags);
    expect(await coordinator.exited).toBe(1);
    expect(coordinator.output()).toMatch(message);
  });

  it('on a port that is in use', async () => {
    const other = createServer().listen(0, '127.0.0.1');
    await new Promise((resolve) => other.once('listening', resolve));
    const { port } = other.address() as AddressInfo;
    const coordinator = start({
      server: { ...server, listen_addr: `127.0.0.1:${port}` },
      gateway,
      pipeline: { steps },
    });
    expect(await coordinator.exited).toBe(1);
    expect(coordinator.output()).toMatch(`cannot listen on 127.0.0.1:${port}: the port is in use`);
    await new Promise((resolve) => other.close(resolve));
  });
});

it('starts with a misspelt key, and names the nearest that exists', async () => {
  const config = { server: { ...server, read_timout: '5s' }, gateway, pipeline: { steps } };
  const coordinator = start(config);
  await addressOf(coordinator);
  expect(coordinator.output()).toContain(
    'server.read_timout: unknown key, did you mean read_timeout?',
  );
});

describe('at SIGTERM with an open stream', () => {
  let worker: ScriptedServer;
  let finish: () => void;

  beforeAll(async () => {
    worker = await scriptedServer();
  });

  afterAll(() => worker.close());

  /** A coordinator whose client has got the first event of two. */
  async function withOpenStream(settings: object) {
    const finished = new Promise<void>((resolve) => {
      finish = resolve;
    });
    worker.play({
      headers: { 'content-type': 'text/event-stream' },
      chunks: ['data: {"n":1}\n\n', { wait: finished }, 'data: [DONE]\n\n'],
    });
    const coordinator = start({
      server: { ...server, ...settings },
      gateway: { address: worker.url },
      pipeline: { steps },
    });
    const url = await addressOf(coordinator);
    const { body } = await open(url, {
      path: '/v1/chat/completions',
      body: chatOf('Hello', { stream: true }),
    });
    const pieces: Buffer[] = [];
    body.on('data', (piece: Buffer) => pieces.push(piece));
    const ended = new Promise((resolve) => body.once('close', resolve));
    const events = (): string[] => eventsOf({ body: Buffer.concat(pieces) });
    await until('the first event', () => (events().length === 1 ? true : undefined));
    return { coordinator, url, events, ended };
  }

  it('becomes unready, lets the stream finish and exits with 0', async () => {
    const { coordinator, url, events, ended } = await withOpenStream({ drain_delay: '1s' });
    const ready = () => ask(url, { method: 'GET', path: '/readyz' });
    expect((await ready()).status).toBe(200);
    coordinator.signal('SIGTERM');
    await until('readiness 503', async () => ((await ready()).status === 503 ? true : undefined));
    expect((await ask(url, { method: 'GET', path: '/healthz' })).status).toBe(200);
    finish();
    await ended;
    expect(events()).toEqual(['{"n":1}', '[DONE]']);
    expect(await coordinator.exited).toBe(0);
    expect(coordinator.output()).toContain('"msg":"stopped"');
  });

  it('cuts a stream that outlives the limit with an error event', async () => {
    const { coordinator, events, ended } = await withOpenStream({ shutdown_timeout: '200ms' });
    coordinator.signal('SIGTERM');
    await ended;
    const [, cut = ''] = events();
    expect(events()).toHaveLength(2);
    expect(JSON.parse(cut)).toMatchObject({ error: { code: 'SHUTTING_DOWN' } });
    await coordinator.exited;
    finish();
  });
});
