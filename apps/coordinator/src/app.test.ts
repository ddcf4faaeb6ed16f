import { once } from 'node:events';
import { type IncomingMessage, request as httpRequest } from 'node:http';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { loadConfig } from '@llm-d/config';
import { type RunningService, startService } from '@llm-d/service';
import { createLogger } from '@llm-d/telemetry';
import { type Script, type ScriptedServer, scriptedServer } from '@llm-d/testing';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Coordinator, createApp } from './app.ts';

const rendered = { token_ids: [1, 2345, 6789], request_id: 'r' };
const prefilled = {
  kv_transfer_params: {
    remote_block_ids: [[4, 5]],
    remote_engine_id: 'e',
    remote_request_id: 'r',
    remote_host: '10.0.0.1',
    remote_port: 5600,
  },
};
const answer = '{"id":"x", "choices":[], "n": 1.0}';
const chat = { model: 'm', messages: [{ role: 'user', content: 'hi' }] };

let directory: string;
let lines: Record<string, unknown>[];
let gateway: ScriptedServer;
let render: ScriptedServer;
let coordinator: Coordinator | undefined;
let running: RunningService;

beforeEach(async () => {
  directory = mkdtempSync(join(tmpdir(), 'coordinator-'));
  lines = [];
  render = await scriptedServer({ json: rendered });
  gateway = await scriptedServer();
});

afterEach(async () => {
  await running.stop();
  await coordinator?.close();
  await Promise.all([render.close(), gateway.close()]);
  rmSync(directory, { recursive: true });
});

/** Starts a coordinator whose gateway plays one script per phase. */
async function start(
  phases: { prefill?: Script; decode?: Script } = {},
  server: Record<string, unknown> = {},
  shutdownTimeoutMs = 5_000,
): Promise<void> {
  const { prefill = { json: prefilled }, decode = { text: answer } } = phases;
  gateway.play((call) => {
    const script = call.headers['epp-profile']?.[0] === 'prefill' ? prefill : decode;
    if (typeof script === 'function') return script(call);
    return 'length' in script ? (script[0] ?? {}) : script;
  });
  const file = join(directory, 'coordinator.yaml');
  writeFileSync(
    file,
    JSON.stringify({
      server,
      gateway: { address: gateway.url },
      pipeline: {
        kv_connector: 'kv-nixl',
        steps: [
          { type: 'render', params: { address: render.url } },
          { type: 'prefill' },
          { type: 'decode' },
        ],
      },
    }),
  );
  const logger = createLogger({
    service: 'test',
    level: 2,
    destination: { write: (line) => lines.push(JSON.parse(line) as Record<string, unknown>) },
  });
  coordinator = await createApp({ config: loadConfig({ file }).config, logger });
  running = await startService(coordinator.service, {
    host: '127.0.0.1',
    port: 0,
    logger,
    shutdownTimeoutMs,
  });
}

/** Sends a body and resolves with the response as soon as its headers are there. */
function post(body: unknown, path = '/v1/chat/completions', headers: Record<string, string> = {}) {
  const call = httpRequest(running.url + path, { method: 'POST', headers, agent: false });
  call.end(typeof body === 'string' ? body : JSON.stringify(body));
  const response = once(call, 'response').then(([message]) => message as IncomingMessage);
  return { call, response };
}

async function read(response: Promise<IncomingMessage>) {
  const message = await response;
  let text = '';
  for await (const piece of message.setEncoding('utf8')) text += String(piece);
  return { status: message.statusCode, headers: message.headers, text };
}

/** The `request` line of the log, once it is written. */
async function summary(): Promise<Record<string, unknown>> {
  for (;;) {
    const line = lines.find(({ msg }) => msg === 'request');
    if (line) return line;
    await nextTurn();
  }
}

describe('an inference request', () => {
  it('runs through all steps; the answer is the bytes of the decode worker', async () => {
    await start();
    const { status, headers, text } = await read(
      post(chat, undefined, { 'x-request-id': 'id-1' }).response,
    );
    expect({ status, text }).toEqual({ status: 200, text: answer });
    expect(headers['x-request-id']).toBe('id-1');
    expect(render.calls.map((call) => call.path)).toEqual(['/v1/chat/completions/render']);
    expect(gateway.calls.map((call) => call.headers['epp-profile'])).toEqual([
      ['prefill'],
      ['decode'],
    ]);
    const ids = [...render.calls, ...gateway.calls].map((call) => call.headers['x-request-id']);
    expect(ids).toEqual([['id-1'], ['id-1'], ['id-1']]);
  });

  it.each(['/v1/chat/completions/', '//v1/chat/completions', '/v1/chat/completions?a=b'])(
    'may be sent to %s; legs get the clean path',
    async (path) => {
      await start();
      expect((await read(post(chat, path).response)).status).toBe(200);
      expect(gateway.calls.map((call) => call.path)).toEqual([
        '/v1/chat/completions',
        '/v1/chat/completions',
      ]);
    },
  );

  it('leaves one line in the log', async () => {
    await start();
    await read(post(chat, undefined, { 'x-request-id': 'id-1' }).response);
    expect(await summary()).toMatchObject({
      level: 'info',
      request_id: 'id-1',
      path: '/v1/chat/completions',
      model: 'm',
      stream: false,
      outcome: 'served',
      status: 200,
      request_bytes: JSON.stringify(chat).length,
      response_bytes: answer.length,
      steps: {
        render: expect.any(Number),
        prefill: expect.any(Number),
        decode: expect.any(Number),
      },
    });
    expect(lines.filter(({ level }) => level === 'error')).toEqual([]);
  });

  it('streams: a chunk reaches the client before the next one is sent', async () => {
    let goOn: () => void = () => {};
    const wait = new Promise<void>((resolve) => {
      goOn = resolve;
    });
    await start({
      decode: {
        headers: { 'content-type': 'text/event-stream' },
        chunks: ['data: 1\n\n', { wait }, 'data: 2\n\n'],
      },
    });
    const message = await post({ ...chat, stream: true }).response;
    const [first] = (await once(message.setEncoding('utf8'), 'data')) as [string];
    expect(first).toBe('data: 1\n\n');
    goOn();
    let rest = '';
    for await (const piece of message) rest += String(piece);
    expect(rest).toBe('data: 2\n\n');
  });
});

describe('a bad body', () => {
  it.each(['', 'null', '[]', '"x"', '7', '{"model":', '{} {}', 'hello', '{"a":1,}'])(
    '%p is 400 and no leg is called',
    async (body) => {
      await start();
      const { status, text } = await read(
        post(body, undefined, { 'x-request-id': 'bad-1', 'content-type': 'text/plain' }).response,
      );
      expect(status).toBe(400);
      expect(JSON.parse(text)).toMatchObject({
        error: { type: 'invalid_request_error', code: 'BAD_REQUEST', request_id: 'bad-1' },
      });
      expect(render.calls).toHaveLength(0);
      expect(lines).toEqual([expect.objectContaining({ request_id: 'bad-1', level: 'info' })]);
    },
  );

  it('with a field twice that steps act on is refused', async () => {
    await start();
    const { status, text } = await read(post('{"model":"a","model":"b"}').response);
    expect(status).toBe(400);
    expect(text).toContain('model');
  });
});

describe('a failing upstream', () => {
  it.each([
    { name: 'prefill 422', status: 422, given: { status: 422, text: 'SECRET' } },
    { name: 'prefill 503', status: 503, given: { status: 503, headers: { 'retry-after': '7' } } },
    { name: 'prefill 500', status: 502, given: { status: 500, text: 'SECRET' } },
    { name: 'prefill HTML', status: 502, given: { text: '<html>SECRET' } },
    { name: 'prefill reset', status: 502, given: { beforeHeaders: 'reset' as const } },
  ])('$name: the client gets $status with step and id', async ({ status, given }) => {
    await start({ prefill: given });
    const result = await read(post(chat, undefined, { 'x-request-id': 'up-1' }).response);
    expect(result.status).toBe(status);
    expect(result.headers['retry-after']).toBe(status === 503 ? '7' : undefined);
    expect(result.headers['x-request-id']).toBe('up-1');
    expect(result.text).not.toContain('SECRET');
    expect(JSON.parse(result.text)).toMatchObject({
      error: { step: 'prefill', request_id: 'up-1' },
    });
    expect(gateway.calls).toHaveLength(1);
    expect(await summary()).toMatchObject({ outcome: 'failed', status, step: 'prefill' });
  });

  it("relays a worker's own message when it is told to", async () => {
    const error = {
      message: 'temperature must be positive',
      type: 'BadRequestError',
      param: 'temperature',
    };
    await start({ prefill: { status: 400, json: { error } } }, { upstream_errors: 'relay' });
    const { status, text } = await read(post(chat).response);
    expect(status).toBe(400);
    expect(JSON.parse(text)).toMatchObject({ error });
  });

  it('that breaks a plain answer off never makes it look complete', async () => {
    await start({ decode: { chunks: ['{"half":', { end: 'reset' }] } });
    await expect(read(post(chat).response)).rejects.toThrow('aborted');
    expect(await summary()).toMatchObject({ outcome: 'failed', code: expect.any(String) });
    expect(lines.filter(({ level }) => level === 'error')).toHaveLength(1);
  });
});

describe('a client that leaves', () => {
  it.each(['render', 'prefill', 'decode'])(
    'during %s ends the leg and sends no other',
    async (step) => {
      const hang = { beforeHeaders: 'hang' as const };
      if (step === 'render') render.play(hang);
      await start({
        ...(step === 'prefill' ? { prefill: hang } : {}),
        ...(step === 'decode' ? { decode: hang } : {}),
      });
      const server = step === 'render' ? render : gateway;
      const { call, response } = post(chat);
      const gone = expect(response).rejects.toThrow('socket hang up');
      const leg = await server.received(step === 'decode' ? 1 : 0);
      call.destroy();
      await gone;
      await leg.ended;
      expect(leg.aborted).toBe(true);
      expect(await summary()).toMatchObject({
        outcome: 'cancelled',
        status: 499,
        step,
        response_bytes: 0,
      });
      expect(gateway.calls).toHaveLength({ render: 0, prefill: 1, decode: 2 }[step] ?? -1);
      expect(lines.filter(({ level }) => level === 'error')).toEqual([]);
    },
  );

  it('in the middle of a stream ends the decode leg', async () => {
    await start({
      decode: {
        headers: { 'content-type': 'text/event-stream' },
        chunks: ['data: 1\n\n', { end: 'hang' }],
      },
    });
    const { call, response } = post({ ...chat, stream: true });
    const message = await response;
    await once(message, 'data');
    message.on('error', () => {});
    call.destroy();
    const leg = await gateway.received(1);
    await leg.ended;
    expect(leg.aborted).toBe(true);
    expect(await summary()).toMatchObject({ outcome: 'cancelled', status: 499 });
  });
});

describe('server.write_timeout', () => {
  it('ends an answer that is not streamed with 504', async () => {
    await start({ decode: { beforeHeaders: 'hang' } }, { write_timeout: '50ms' });
    const { status, text } = await read(post(chat).response);
    expect(status).toBe(504);
    expect(JSON.parse(text)).toMatchObject({ error: { code: 'ANSWER_TIMEOUT', step: 'decode' } });
    await gateway.calls[1]?.ended;
  });

  it('leaves streams alone', async () => {
    await start(
      {
        decode: {
          headers: { 'content-type': 'text/event-stream' },
          chunks: ['data: 1\n\n', { wait: 150 }, 'data: 2\n\n'],
        },
      },
      { write_timeout: '50ms' },
    );
    const { text } = await read(post({ ...chat, stream: true }).response);
    expect(text).toBe('data: 1\n\ndata: 2\n\n');
  });
});

describe('readyz?verbose', () => {
  it('tells who listens and stays ready without them', async () => {
    await start();
    await render.close();
    const message = await once(
      httpRequest(`${running.url}/readyz?verbose`, { agent: false }).end(),
      'response',
    );
    const { status, text } = await read(Promise.resolve(message[0] as IncomingMessage));
    expect(status).toBe(200);
    expect(JSON.parse(text)).toEqual({
      status: 'ok',
      dependencies: { gateway: 'up', render: 'down' },
    });
    render = await scriptedServer();
  });
});

describe('a stop', () => {
  it('lets an open stream finish', async () => {
    let goOn: () => void = () => {};
    const wait = new Promise<void>((resolve) => {
      goOn = resolve;
    });
    await start({
      decode: {
        headers: { 'content-type': 'text/event-stream' },
        chunks: ['data: 1\n\n', { wait }, 'data: [DONE]\n\n'],
      },
    });
    const response = await post({ ...chat, stream: true }).response;
    const stopped = running.stop();
    goOn();
    expect((await read(Promise.resolve(response))).text).toBe('data: 1\n\ndata: [DONE]\n\n');
    expect(await stopped).toBe(true);
  });

  it('answers 503 to what has not begun to answer by the shutdown limit', async () => {
    await start({ decode: { beforeHeaders: 'hang' } }, {}, 50);
    const { response } = post(chat);
    await gateway.received(1);
    expect(await running.stop()).toBe(true);
    const { status, text } = await read(response);
    expect(status).toBe(503);
    expect(JSON.parse(text)).toMatchObject({ error: { code: 'SHUTTING_DOWN' } });
  });
});
