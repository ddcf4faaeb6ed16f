import { once } from 'node:events';
import { type AddressInfo, connect, createServer } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect as connectTls } from 'node:tls';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { chatOf, until } from '@llm-d/soak';
import { scriptedServer, type ScriptedServer } from '@llm-d/testing';
import { ask, eventsOf, open } from './ask.ts';
import { addressOf, type CoordinatorProcess, runCoordinator } from './coordinator-process.ts';

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
      name: 'with a cipher suite that nobody knows',
      config: { server, gateway, pipeline: { steps } },
      flags: ['--secure-serving', '--tls-cipher-suites=TLS_NONE'],
      message: /^coordinator: server\.tls_cipher_suites: expected Go's names .*, got "TLS_NONE"\n$/,
    },
    {
      name: 'with a version of TLS that nobody knows',
      config: { server, gateway, pipeline: { steps } },
      flags: ['--secure-serving', '--tls-min-version=TLS1.2'],
      message: /^coordinator: server\.tls_min_version: expected one of VersionTLS10, .*\n$/,
    },
    {
      name: 'without the files of its certificate',
      config: { server, gateway, pipeline: { steps } },
      flags: ['--secure-serving', '--cert-path=/nowhere'],
      message: /^coordinator: server\.cert_path: ENOENT: .*tls\.crt'\n$/,
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

it('speaks TLS when its flags say so', async () => {
  const config = { server, gateway, pipeline: { steps } };
  const flags = ['--secure-serving', '--tls-min-version=VersionTLS13'];
  const url = await addressOf(start(config, flags));
  expect(url).toMatch(/^https:/);
  const port = Number(new URL(url).port);
  const socket = connectTls({ port, host: '127.0.0.1', rejectUnauthorized: false });
  await once(socket, 'secureConnect');
  expect(socket.getProtocol()).toBe('TLSv1.3');
  socket.write('GET /readyz HTTP/1.1\r\nhost: x\r\n\r\n');
  const [answer] = (await once(socket, 'data')) as [Buffer];
  expect(answer.toString()).toMatch(/^HTTP\/1.1 200 /);
  socket.destroy();
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
    body.on('data', (piece: Buffer) => pieces.push(piece)).on('error', () => undefined);
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
    // The client was told.
    expect(await coordinator.exited).toBe(0);
    finish();
  });

  it('C42: ends at once with 1 at a second signal', async () => {
    const { coordinator, ended } = await withOpenStream({});
    coordinator.signal('SIGTERM');
    await until('the drain', () => (/draining/.test(coordinator.output()) ? true : undefined));
    coordinator.signal('SIGTERM');
    expect(await coordinator.exited).toBe(1);
    await ended;
    finish();
  });

  it('C42: serves 50 streams to their end and new requests in the window, and closes idle connections', async () => {
    const { coordinator, url, ended } = await withOpenStream({ drain_delay: '1500ms' });
    const streams = await Promise.all(
      Array.from({ length: 49 }, () =>
        open(url, { path: '/v1/chat/completions', body: chatOf('Hello', { stream: true }) }),
      ),
    );
    const texts = streams.map(({ body }) => body.text());
    const idle = connect(Number(new URL(url).port), '127.0.0.1');
    idle.write('GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n');
    await once(idle, 'data');
    const idleClosed = once(idle.resume(), 'close');

    coordinator.signal('SIGTERM');
    await until('readiness 503', async () => {
      const { status } = await ask(url, { method: 'GET', path: '/readyz' });
      return status === 503 ? true : undefined;
    });
    worker.play({ json: { choices: [] } });
    for (let i = 0; i < 10; i += 1) {
      const answer = await ask(url, { path: '/v1/chat/completions', body: chatOf('Hello') });
      expect(answer.status).toBe(200);
      expect(answer.headers['connection']).toBe('close');
      const live = await ask(url, { method: 'GET', path: '/healthz' });
      expect(live.status).toBe(200);
      await sleep(50);
    }
    await idleClosed;
    // Reset is what one gets that the system had taken just before.
    await expect(ask(url, { method: 'GET', path: '/healthz' })).rejects.toThrow(
      /ECONNREFUSED|ECONNRESET/,
    );
    finish();
    for (const text of await Promise.all(texts)) expect(text).toMatch(/\[DONE\]\n\n$/);
    await ended;
    expect(await coordinator.exited).toBe(0);
  });
});
