import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { once } from 'node:events';
import { request as httpRequest } from 'node:http';
import { type IncomingMessage } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect } from 'node:tls';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { generate } from 'selfsigned';
import { type MetricsListener, startMetricsListener } from './metrics-listener.ts';
import { createLogger } from '@llm-d/telemetry';
import { ServerTls } from './server-tls.ts';

let listener: MetricsListener | undefined;
let directory: string;

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'metrics-'));
});

afterEach(async () => {
  await listener?.stop();
  listener = undefined;
  rmSync(directory, { recursive: true });
});

const text = (accept: string | undefined) =>
  Promise.resolve({ contentType: 'text/plain', body: `asked for ${accept ?? 'nothing'}\n` });

async function start(overrides: Partial<Parameters<typeof startMetricsListener>[0]> = {}) {
  listener = await startMetricsListener({ host: '127.0.0.1', port: 0, text, ...overrides });
  return listener;
}

async function ask(path: string, options: { method?: string; isTls?: boolean } = {}) {
  const { method = 'GET', isTls = false } = options;
  const send = isTls ? httpsRequest : httpRequest;
  const call = send({
    ...{ host: '127.0.0.1', port: listener?.port, path, method, agent: false },
    ...{ headers: { accept: 'a/b' }, rejectUnauthorized: false },
  }).end();
  const [message] = (await once(call, 'response')) as [IncomingMessage];
  let body = '';
  for await (const piece of message.setEncoding('utf8')) body += String(piece);
  return { status: message.statusCode, type: message.headers['content-type'], body };
}

describe('the metrics listener', () => {
  it('answers GET /metrics in the format that is asked for', async () => {
    await start();
    expect(await ask('/metrics?x=1')).toEqual({
      ...{ status: 200, type: 'text/plain', body: 'asked for a/b\n' },
    });
  });

  it.each([
    { path: '/', method: 'GET', status: 404 },
    { path: '/metrics/x', method: 'GET', status: 404 },
    { path: '/metrics', method: 'POST', status: 405 },
  ])('answers $method $path with $status', async ({ path, method, status }) => {
    await start();
    expect(await ask(path, { method })).toMatchObject({ status });
  });

  it('answers 500 when the text cannot be made', async () => {
    await start({ text: () => Promise.reject(new Error('SECRET')) });
    expect(await ask('/metrics')).toMatchObject({ status: 500, body: '' });
  });

  it('rejects when the port is taken', async () => {
    const { port } = await start();
    await expect(startMetricsListener({ host: '127.0.0.1', port, text })).rejects.toThrow(
      'EADDRINUSE',
    );
  });

  it('lets a scrape finish when it is stopped', async () => {
    let goOn: () => void = () => {};
    let asked: () => void = () => {};
    const isAsked = new Promise<void>((resolve) => (asked = resolve));
    const isReady = new Promise<void>((resolve) => (goOn = resolve));
    const started = await start({
      text: async (accept) => {
        asked();
        await isReady;
        return text(accept);
      },
    });
    const answer = ask('/metrics');
    await isAsked;
    const stopped = started.stop();
    listener = undefined;
    goOn();
    await expect(answer).resolves.toMatchObject({ status: 200 });
    await stopped;
  });
});

describe('the metrics listener with a certificate', () => {
  const loadTls = () =>
    ServerTls.load({ certificatePath: directory }, createLogger({ service: 'test', level: 1 }));

  async function writeFiles(): Promise<void> {
    const { private: key, cert } = await generate([{ name: 'commonName', value: 'metrics' }]);
    writeFileSync(join(directory, 'tls.crt'), cert);
    writeFileSync(join(directory, 'tls.key'), key);
  }

  it('speaks TLS and no plain HTTP', async () => {
    await writeFiles();
    await start({ tls: await loadTls() });
    expect(await ask('/metrics', { isTls: true })).toMatchObject({ status: 200 });
    await expect(ask('/metrics')).rejects.toThrow();
  });

  it('takes no TLS below 1.2', async () => {
    await writeFiles();
    const { port } = await start({ tls: await loadTls() });
    const old = { minVersion: 'TLSv1', maxVersion: 'TLSv1.1' } as const;
    const socket = connect({ host: '127.0.0.1', port, rejectUnauthorized: false, ...old });
    await expect(once(socket, 'secureConnect')).rejects.toThrow();
  });

  it.each([
    { name: 'no files', prepare: () => {} },
    {
      name: 'files that are no certificate',
      prepare: () => {
        writeFileSync(join(directory, 'tls.crt'), 'x');
        writeFileSync(join(directory, 'tls.key'), 'x');
      },
    },
  ])('does not start with $name', async ({ prepare }) => {
    prepare();
    await expect(loadTls()).rejects.toThrow();
  });

  it('does not start with a key of another certificate', async () => {
    await writeFiles();
    const other = await generate([{ name: 'commonName', value: 'other' }]);
    writeFileSync(join(directory, 'tls.key'), other.private);
    await expect(loadTls()).rejects.toThrow();
  });
});
