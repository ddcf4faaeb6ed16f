import { once } from 'node:events';
import { createServer, type AddressInfo, Socket } from 'node:net';
import { gzipSync } from 'node:zlib';
import { type Answer, scriptedServer, type ScriptedServer } from '@llm-d/testing';
import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { clientOf, nextTurn, post } from './testing.ts';
import { maxErrorBytes, type UpstreamClient } from './upstream-client.ts';

/** Where Node hands bytes to the system: one chunk, or several at once. */
interface WritingSocket {
  _writeGeneric(isVector: boolean, data: unknown[]): void;
}

let server: ScriptedServer;
let client: UpstreamClient;

beforeEach(async () => {
  server = await scriptedServer();
  client = clientOf(server.url);
});

afterEach(async () => {
  await client.destroy();
  await server.close();
});

describe('the request', () => {
  it.each(['call', 'stream'] as const)('says once that it goes out: %s', async (method) => {
    let sent = 0;
    const request = { ...post(), onSent: () => (sent += 1) };
    if (method === 'call') await client.call(request);
    else await client.stream(request, { start: () => true, data: () => {} });
    expect(sent).toBe(1);
  });

  it.each(['nobody listens', 'its signal was aborted before'])(
    'does not say so when %s',
    async (name) => {
      let isSent = false;
      const controller = new AbortController();
      if (name === 'nobody listens') await server.close();
      else controller.abort();
      const { signal } = controller;
      const call = client.call({ ...post(), signal, onSent: () => (isSent = true) });
      await expect(call).rejects.toThrow();
      expect(isSent).toBe(false);
    },
  );

  it('does not say so when its signal is aborted while the connection is made', async () => {
    let isSent = false;
    const controller = new AbortController();
    const { signal } = controller;
    const call = client.call({ ...post(), signal, onSent: () => (isSent = true) });
    controller.abort();
    await expect(call).rejects.toThrow();
    // The connection is there by the time a second call is answered.
    await client.call(post());
    expect(isSent).toBe(false);
    expect(server.calls).toHaveLength(1);
  });

  it('is a POST of the bytes with their exact length, below the prefix of the address', async () => {
    const prefixed = clientOf(`${server.url}/models/a/`);
    await prefixed.call(post({ pieces: ['{"a":', '1}'] }));
    await client.call(post());
    await prefixed.destroy();
    expect(server.calls.map(({ method, path }) => [method, path])).toEqual([
      ['POST', '/models/a/v1/completions'],
      ['POST', '/v1/completions'],
    ]);
    expect(server.calls[0]?.body.toString()).toBe('{"a":1}');
    expect(server.calls[0]?.headers['content-length']).toEqual(['7']);
    expect(server.calls[0]?.headers['transfer-encoding']).toBeUndefined();
  });

  it.each([
    { name: 'none of its own', headers: ['x-a', '1'], sent: 'Basic dXNAZXI6cDp3' },
    { name: 'its own', headers: ['Authorization', 'Bearer t'], sent: 'Bearer t' },
  ])('authenticates with what the address says when it has $name', async ({ headers, sent }) => {
    const known = clientOf(server.url.replace('://', '://us%40er:p%3Aw@'));
    await known.call(post({ headers }));
    await known.destroy();
    expect(server.calls[0]?.headers['authorization']).toEqual([sent]);
  });

  it('sends a large body of many chunks whole, with its exact length', async () => {
    const pieces = Array.from({ length: 50 }, (_, i) =>
      String.fromCharCode(97 + (i % 26)).repeat(40_000),
    );
    await client.call(post({ pieces }));
    const [call] = server.calls;
    expect(call?.headers['content-length']).toEqual(['2000000']);
    expect(call?.body.equals(Buffer.from(pieces.join('')))).toBe(true);
  });

  it('goes out in one system call with the pieces of a body that is in memory', async () => {
    const written = jest.spyOn(Socket.prototype as unknown as WritingSocket, '_writeGeneric');
    const pieces = ['[', 'a'.repeat(100_000), ',', 'b'.repeat(100_000), ']'];
    await client.call(post({ pieces }));
    const ours = written.mock.calls.filter((_, i) => {
      const { remotePort } = written.mock.contexts[i] as Socket;
      return remotePort === Number(new URL(server.url).port);
    });
    written.mockRestore();
    const writes = ours.map(([isVector, data]) => (isVector ? data.length : 1));
    // The header and five pieces: what is small is not joined to what is large.
    expect(writes).toEqual([6]);
    expect(server.calls[0]?.body.toString()).toBe(pieces.join(''));
  });

  it('keeps all values of a repeated header in order', async () => {
    await client.call(post({ headers: ['x-a', '1', 'x-b', '2', 'x-a', '3'] }));
    expect(server.calls[0]?.headers).toMatchObject({ 'x-a': ['1', '3'], 'x-b': ['2'] });
  });

  it('adds no header of its own but what the message needs', async () => {
    await client.call(post({ headers: ['content-type', 'application/json'] }));
    expect(Object.keys(server.calls[0]?.headers ?? {}).toSorted()).toEqual([
      'connection',
      'content-length',
      'content-type',
      'host',
    ]);
  });
});

describe('the answer', () => {
  it('is read whole, with status and headers', async () => {
    server.play({ status: 201, headers: { 'x-a': ['1', '2'] }, chunks: ['{"a"', ':1}'] });
    const answer = await client.call(post());
    expect(answer).toMatchObject({ status: 201, headers: { 'x-a': ['1', '2'] } });
    expect(answer.body.toString()).toBe('{"a":1}');
  });

  it('is unpacked when it came compressed', async () => {
    const bytes = gzipSync('{"a":1}');
    server.play({ headers: { 'content-encoding': 'gzip' }, bytes });
    expect((await client.call(post())).body.toString()).toBe('{"a":1}');
  });

  it.each([
    { name: 'an unknown coding', answer: { headers: { 'content-encoding': 'x' }, text: 'a' } },
    { name: 'damaged bytes', answer: { headers: { 'content-encoding': 'br' }, text: 'a' } },
  ])('fails with $name', async ({ answer }) => {
    server.play(answer);
    await expect(client.call(post())).rejects.toMatchObject({ fault: 'answer-undecodable' });
  });

  it('is a redirect like any other status and is not followed', async () => {
    server.play({ status: 307, headers: { location: `${server.url}/elsewhere` }, text: 'moved' });
    const answer = await client.call(post());
    expect(answer).toMatchObject({ status: 307, body: Buffer.from('moved') });
    expect(server.calls).toHaveLength(1);
  });

  it('skips an early hint', async () => {
    const hinting = createServer((socket) => {
      socket.on('error', () => {});
      socket.once('data', () => {
        socket.write('HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n');
        socket.write('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok');
      });
    });
    hinting.listen(0, '127.0.0.1');
    await once(hinting, 'listening');
    const other = clientOf(`http://127.0.0.1:${(hinting.address() as AddressInfo).port}`);
    expect(await other.call(post())).toMatchObject({ status: 200, body: Buffer.from('ok') });
    await other.destroy();
    hinting.close();
  });

  it.each([
    { name: 'in one piece', answer: { text: 'x'.repeat(32_768) } },
    { name: 'in pieces', answer: { chunks: Array.from({ length: 32 }, () => 'x'.repeat(1024)) } },
    { name: 'far beyond', answer: { chunks: Array.from({ length: 99 }, () => 'x'.repeat(8000)) } },
  ])('keeps the first 8 KB of an error that came $name', async ({ answer }) => {
    server.play({ status: 500, ...answer });
    const { status, body } = await client.call(post());
    expect(status).toBe(500);
    expect(body.toString()).toBe('x'.repeat(maxErrorBytes));
  });

  it('keeps a short error as it is', async () => {
    server.play({ status: 404, json: { error: 'x' } });
    expect((await client.call(post())).body.toString()).toBe('{"error":"x"}');
  });

  it('may have exactly the size that is allowed, not more', async () => {
    await client.destroy();
    client = clientOf(server.url, { maxAnswerBytes: 1000 });
    server.play([
      { text: 'x'.repeat(1000) },
      { text: 'x'.repeat(1001) },
      { chunks: ['x'.repeat(900), 'x'.repeat(900), { end: 'hang' }] },
      { headers: { 'content-encoding': 'gzip' }, bytes: gzipSync('x'.repeat(1001)) },
    ]);
    expect((await client.call(post())).body).toHaveLength(1000);
    await expect(client.call(post())).rejects.toMatchObject({ fault: 'answer-too-large' });
    await expect(client.call(post())).rejects.toMatchObject({ fault: 'answer-too-large' });
    await server.calls[2]?.ended;
    expect(server.calls[2]?.aborted).toBe(true);
    await expect(client.call(post())).rejects.toMatchObject({ fault: 'answer-undecodable' });
  });
});

describe('a fault', () => {
  const promised = { headers: { 'content-length': '1000' } };
  it.each<{ name: string; answer: Answer }>([
    { name: 'a reset before the headers', answer: { beforeHeaders: 'reset' } },
    { name: 'a close before the headers', answer: { beforeHeaders: 'close' } },
    { name: 'a reset in the body', answer: { chunks: ['a', { wait: 20 }, { end: 'reset' }] } },
    { name: 'a close in a chunked body', answer: { chunks: ['a', { end: 'close' }] } },
    {
      name: 'a close before the promised end',
      answer: { ...promised, chunks: ['short', { end: 'close' }] },
    },
  ])('is $name, and nothing is sent again', async ({ answer }) => {
    server.play(answer);
    await expect(client.call(post())).rejects.toMatchObject({ fault: 'reset' });
    expect(server.calls).toHaveLength(1);
  });

  it('is a port where nobody listens', async () => {
    await server.close();
    const error = await client.call(post()).catch((caught: unknown) => caught);
    expect(error).toMatchObject({ name: 'TransportError', fault: 'connect' });
    expect(String(error)).not.toContain('127.0.0.1');
  });

  it.each<{ name: string; answer: Answer; limit: object }>([
    { name: 'headers', answer: { beforeHeaders: 'hang' }, limit: { headersTimeoutMs: 100 } },
    {
      name: 'the end of the call',
      answer: { chunks: ['a', { end: 'hang' }] },
      limit: { callTimeoutMs: 100 },
    },
    {
      name: 'a call without an answer',
      answer: { beforeHeaders: 'hang' },
      limit: { callTimeoutMs: 100 },
    },
  ])('is waiting too long for $name', async ({ answer, limit }) => {
    await client.destroy();
    client = clientOf(server.url, limit);
    server.play(answer);
    await expect(client.call(post())).rejects.toMatchObject({ fault: 'timeout' });
    await server.calls[0]?.ended;
    expect(server.calls[0]?.aborted).toBe(true);
  });

  it('is not the time that a whole answer takes below its limits', async () => {
    await client.destroy();
    client = clientOf(server.url, { headersTimeoutMs: 1500, bodyTimeoutMs: 100 });
    server.play({ chunks: ['a', { wait: 900 }, 'b', { wait: 900 }, 'c'] });
    expect((await client.call(post())).body.toString()).toBe('abc');
  });
});

describe('an abort', () => {
  const reason = new Error('the client has left');

  it('before the call sends nothing', async () => {
    await expect(client.call(post({ signal: AbortSignal.abort(reason) }))).rejects.toBe(reason);
    expect(server.connectionCount).toBe(0);
  });

  it.each<{ name: string; answer: Answer }>([
    { name: 'before the headers', answer: { beforeHeaders: 'hang' } },
    { name: 'in the body', answer: { chunks: ['a', { end: 'hang' }] } },
  ])('$name closes the connection and gives the reason', async ({ answer }) => {
    const aborting = new AbortController();
    server.play(answer);
    const called = client.call(post({ signal: aborting.signal }));
    const call = await server.received(0);
    aborting.abort(reason);
    await expect(called).rejects.toBe(reason);
    await call.ended;
    expect(call.aborted).toBe(true);
  });

  it('while the request is still being sent closes the connection', async () => {
    const aborting = new AbortController();
    const pieces = Array.from({ length: 2000 }, () => 'x'.repeat(65_536));
    const called = client.call(post({ pieces, signal: aborting.signal }));
    const call = await server.arrived(0);
    aborting.abort(reason);
    await expect(called).rejects.toBe(reason);
    await call.ended;
    expect(call.aborted).toBe(true);
    expect(call.body.length).toBeLessThan(2000 * 65_536);
  });

  it('while the connection is being made sends nothing', async () => {
    const aborting = new AbortController();
    const called = client.call(post({ signal: aborting.signal }));
    aborting.abort(reason);
    await expect(called).rejects.toBe(reason);
    await client.call(post());
    expect(server.calls).toHaveLength(1);
  });

  it('after the answer changes nothing', async () => {
    const aborting = new AbortController();
    await client.call(post({ signal: aborting.signal }));
    await nextTurn();
    aborting.abort(reason);
    await client.call(post());
    expect(server.connectionCount).toBe(1);
  });

  it('with something that is no error still fails as an error', async () => {
    const called = client.call(post({ signal: AbortSignal.abort('gone') }));
    await expect(called).rejects.toBeInstanceOf(Error);
  });
});
