import { once } from 'node:events';
import { Agent, type ClientRequest, type IncomingMessage, request } from 'node:http';
import { afterEach, describe, expect, it } from '@jest/globals';
import { type Script, scriptedServer, type ScriptedServer } from './scripted-server.ts';

let server: ScriptedServer;
const agent = new Agent({ keepAlive: true });

afterEach(async () => {
  agent.destroy();
  await server.close();
});

function send(headers: string[] = [], body = '{}'): ClientRequest {
  const options = { method: 'POST', path: '/v1/x?y=1', agent };
  const sent = request(server.url, { ...options, headers: ['host', 'x', ...headers] });
  sent.end(body);
  return sent;
}

async function answerTo(script: Script): Promise<{ answer: IncomingMessage; text: string }> {
  server = await scriptedServer(script);
  return read();
}

async function read(): Promise<{ answer: IncomingMessage; text: string }> {
  const [answer] = (await once(send(), 'response')) as [IncomingMessage];
  let text = '';
  for await (const piece of answer) text += String(piece);
  return { answer, text };
}

describe('scriptedServer', () => {
  it('records method, path, every header value and the bytes of the body', async () => {
    server = await scriptedServer();
    const sent = send(
      ['X-A', '1', 'x-b', '2', 'X-A', '3', 'transfer-encoding', 'chunked'],
      '{"n":1.0}',
    );
    const [answer] = (await once(sent, 'response')) as [IncomingMessage];
    answer.resume();
    const call = await server.received(0);
    expect(call).toMatchObject({ method: 'POST', path: '/v1/x?y=1', connection: 0 });
    expect(call.headers).toMatchObject({ 'x-a': ['1', '3'], 'x-b': ['2'] });
    expect(call.rawHeaders).toContain('X-A');
    expect(call.body.toString()).toBe('{"n":1.0}');
    expect(call.json()).toEqual({ n: 1 });
    await call.ended;
    expect(call.aborted).toBe(false);
  });

  it.each([
    { name: 'JSON', part: { json: { a: 1 } }, text: '{"a":1}', type: 'application/json' },
    { name: 'text', part: { text: 'a' }, text: 'a', type: undefined },
    { name: 'bytes', part: { bytes: Buffer.from('b') }, text: 'b', type: undefined },
    { name: 'nothing', part: {}, text: '', type: undefined },
  ])('answers $name with a status and a length', async ({ part, text, type }) => {
    const { answer, text: got } = await answerTo({ status: 201, ...part });
    expect(answer.statusCode).toBe(201);
    expect(answer.headers).toMatchObject({ 'content-length': String(text.length) });
    expect(answer.headers['content-type']).toBe(type);
    expect(got).toBe(text);
  });

  it('plays a list in order of arrival and repeats its last answer', async () => {
    await answerTo([{ text: 'one' }, { text: 'two' }]);
    expect((await read()).text).toBe('two');
    expect((await read()).text).toBe('two');
    server.play((call) => ({ text: call.method }));
    expect((await read()).text).toBe('POST');
    expect(server.connectionCount).toBe(1);
  });

  it('sends chunks one by one and waits for events between them', async () => {
    const gate = Promise.withResolvers<void>();
    server = await scriptedServer({ chunks: ['a', { wait: gate.promise }, 'b', { wait: 1 }, 'c'] });
    const [answer] = (await once(send(), 'response')) as [IncomingMessage];
    const ended = once(answer, 'end');
    const pieces: string[] = [];
    answer.on('data', (piece) => pieces.push(String(piece)));
    await once(answer, 'data');
    expect(pieces).toEqual(['a']);
    gate.resolve();
    await ended;
    expect(pieces.join('')).toBe('abc');
    expect(server.calls[0]?.sentBytes).toBe(3);
  });

  it.each(['close', 'reset'] as const)('can %s before the headers', async (beforeHeaders) => {
    server = await scriptedServer({ beforeHeaders });
    const [error] = (await once(send(), 'error')) as [NodeJS.ErrnoException];
    expect(error.code).toBe('ECONNRESET');
    await server.calls[0]?.ended;
    expect(server.calls[0]?.aborted).toBe(false);
  });

  it.each(['close', 'reset'] as const)('can %s in the middle of a body', async (end) => {
    const isRead = Promise.withResolvers<void>();
    const chunks = ['abc', { wait: isRead.promise }, { end }];
    server = await scriptedServer({ headers: { 'content-length': '9' }, chunks });
    const sent = send();
    const [answer] = (await once(sent, 'response')) as [IncomingMessage];
    // Node tells of a reset on the request too.
    sent.on('error', () => {});
    answer.once('data', () => isRead.resolve());
    const [error] = (await once(answer, 'error')) as [NodeJS.ErrnoException];
    expect(error.code).toBe('ECONNRESET');
  });

  it.each([
    { name: 'headers', script: { beforeHeaders: 'hang' } as const },
    { name: 'a whole body', script: { chunks: [{ end: 'hang' } as const] } },
    { name: 'its delay is over', script: { delay: 60_000 } },
  ])('sees a caller that leaves before $name', async ({ script }) => {
    server = await scriptedServer(script);
    const sent = send();
    sent.on('error', () => {});
    const call = await server.received(0);
    sent.destroy();
    await call.ended;
    expect(call.aborted).toBe(true);
  });

  it('stops writing while the caller does not read, and ends with the connection', async () => {
    function* endless(): Generator<Uint8Array> {
      for (;;) yield Buffer.alloc(65_536);
    }
    server = await scriptedServer({ chunks: endless() });
    const sent = send();
    const [answer] = (await once(sent, 'response')) as [IncomingMessage];
    answer.pause();
    const call = await server.received(0);
    let before = -1;
    while (call.sentBytes !== before) {
      before = call.sentBytes;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    expect(before).toBeGreaterThan(0);
    answer.on('error', () => {});
    answer.destroy();
    await call.ended;
    expect(call.aborted).toBe(true);
  });

  it('closes connections that wait for a call', async () => {
    await answerTo({});
    const [socket] = Object.values(agent.freeSockets).flat();
    const closed = once(socket ?? agent, 'close');
    server.closeIdleConnections();
    await closed;
    expect(server.openConnectionCount).toBe(0);
  });

  it('may be closed twice', async () => {
    await answerTo({});
    await Promise.all([server.close(), server.close()]);
    expect(await server.close()).toBeUndefined();
  });
});
