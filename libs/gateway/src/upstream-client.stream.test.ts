import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { PassThrough, Readable } from 'node:stream';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { type Answer, scriptedServer, type ScriptedServer } from '@llm-d/testing';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { clientOf, MemoryReceiver, nextTurn, post } from './testing.ts';
import { type UpstreamClient } from './upstream-client.ts';
import { type StreamRequest } from './upstream-request.ts';

let server: ScriptedServer;
let client: UpstreamClient;
let receiver: MemoryReceiver;

beforeEach(async () => {
  server = await scriptedServer();
  client = clientOf(server.url);
  receiver = new MemoryReceiver();
});

afterEach(async () => {
  await client.destroy();
  await server.close();
});

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

function* endless(piece = Buffer.alloc(65_536)): Generator<Uint8Array> {
  for (;;) yield piece;
}

/** Resolves with the bytes a call has sent, once the server has stopped writing. */
async function stalledAt(call: { sentBytes: number }): Promise<number> {
  let before = -1;
  while (call.sentBytes !== before) {
    before = call.sentBytes;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  return before;
}

describe('a streamed answer', () => {
  it('is handed on while it arrives', async () => {
    const gate = Promise.withResolvers<void>();
    server.play({
      status: 202,
      headers: { 'X-A': ['1', '2'] },
      chunks: ['one', { wait: gate.promise }, 'two'],
    });
    const streamed = client.stream(post(), receiver);
    await receiver.seen('one');
    expect(receiver.text).toBe('one');
    gate.resolve();
    await streamed;
    expect(receiver.text).toBe('onetwo');
    expect(receiver.status).toBe(202);
    expect(receiver.headers.join('\n')).toContain('X-A\n1\nX-A\n2');
  });

  it.each([1, 2])('has let go of a request body in pieces of %d when it begins', async (count) => {
    const gate = Promise.withResolvers<void>();
    server.play({ chunks: ['one', { wait: gate.promise }] });
    const begin = (): { streamed: Promise<void>; pieces: WeakRef<Buffer>[] } => {
      const chunks = Array.from({ length: count }, () => Buffer.alloc(300_000, ' '));
      const body = { chunks, byteLength: count * 300_000 };
      const streamed = client.stream({ ...post(), body }, receiver);
      return { streamed, pieces: chunks.map((chunk) => new WeakRef(chunk)) };
    };
    const { streamed, pieces } = begin();
    await receiver.seen('one');
    await nextTurn();
    collect();
    expect(pieces.filter((piece) => piece.deref())).toEqual([]);
    gate.resolve();
    await streamed;
  });

  it('is not unpacked, whatever its status', async () => {
    server.play({ status: 400, headers: { 'content-encoding': 'gzip' }, text: 'packed' });
    await client.stream(post(), receiver);
    expect(receiver.text).toBe('packed');
  });

  it('may be larger than an answer that is read here', async () => {
    await client.destroy();
    client = clientOf(server.url, { maxAnswerBytes: 10, callTimeoutMs: 1 });
    server.play({ chunks: ['x'.repeat(100), { wait: 50 }, 'x'.repeat(100)] });
    await client.stream(post(), receiver);
    expect(receiver.byteLength).toBe(200);
  });

  it.each<{ name: string; answer: Answer; limit?: object; fault: string }>([
    { name: 'a reset', answer: { chunks: ['a', { wait: 20 }, { end: 'reset' }] }, fault: 'reset' },
    { name: 'a close', answer: { chunks: ['a', { end: 'close' }] }, fault: 'reset' },
    {
      name: 'silence',
      answer: { chunks: ['a', { end: 'hang' }] },
      limit: { bodyTimeoutMs: 100 },
      fault: 'timeout',
    },
  ])('fails on $name after its start, with what came before', async ({ answer, limit, fault }) => {
    await client.destroy();
    client = clientOf(server.url, limit);
    server.play(answer);
    await expect(client.stream(post(), receiver)).rejects.toMatchObject({ fault });
    expect(receiver.text).toBe('a');
    expect(server.calls).toHaveLength(1);
  });

  it('hands on what came before an abort, and nothing later', async () => {
    const aborting = new AbortController();
    const reason = new Error('the client has left');
    server.play({ chunks: ['a', { end: 'hang' }] });
    const streamed = client.stream(post({ signal: aborting.signal }), receiver);
    await receiver.seen('a');
    aborting.abort(reason);
    await expect(streamed).rejects.toBe(reason);
    await server.calls[0]?.ended;
    expect(server.calls[0]?.aborted).toBe(true);
  });

  it('fails with the error of a receiver that cannot start, and the call ends', async () => {
    const broken = new Error('headers cannot be written');
    server.play({ chunks: ['a', { end: 'hang' }] });
    const streamed = client.stream(post(), {
      start: () => {
        throw broken;
      },
      data: () => {},
    });
    await expect(streamed).rejects.toBe(broken);
    await server.calls[0]?.ended;
  });
});

describe('a call of another kind', () => {
  const call = (request: Partial<StreamRequest>): Promise<void> =>
    client.stream({ ...post(), ...request }, receiver);

  it.each(['GET', 'HEAD', 'DELETE', 'OPTIONS'])('may be a %s without a body', async (method) => {
    await call({ method, path: '/v1/models?a=%2F', body: undefined });
    expect(server.calls[0]).toMatchObject({ method, path: '/v1/models?a=%2F' });
    expect(server.calls[0]?.headers['content-length']).toBeUndefined();
    expect(server.calls[0]?.headers['transfer-encoding']).toBeUndefined();
  });

  it.each([
    { name: 'with its length', byteLength: 6, framing: { 'content-length': ['6'] } },
    {
      name: 'in chunks',
      byteLength: undefined,
      framing: { 'transfer-encoding': ['chunked'] },
    },
  ])('hands a body on that still arrives: $name', async ({ byteLength, framing }) => {
    const stream = new PassThrough();
    stream.write('one');
    const called = call({ method: 'PUT', body: { byteLength, stream } });
    const arrived = await server.arrived(0);
    expect(arrived.headers).toMatchObject(framing);
    stream.end('two');
    await called;
    expect(arrived.body.toString()).toBe('onetwo');
  });

  it('lets go of a body that still arrives when it is aborted', async () => {
    const aborting = new AbortController();
    const stream = new PassThrough();
    stream.on('error', () => {});
    const closed = once(stream, 'close');
    stream.write('one');
    const body = { byteLength: undefined, stream };
    const called = call({ body, signal: aborting.signal });
    const arrived = await server.arrived(0);
    aborting.abort(new Error('enough'));
    await expect(called).rejects.toThrow('enough');
    await Promise.all([closed, arrived.ended]);
    expect(arrived.aborted).toBe(true);
  });

  it('takes no more of a body that still arrives than the upstream reads', async () => {
    // A server that accepts and never reads.
    const connected = Promise.withResolvers<Socket>();
    const deaf = createServer((socket) => connected.resolve(socket.pause()));
    deaf.listen(0, '127.0.0.1');
    await once(deaf, 'listening');
    await client.destroy();
    client = clientOf(`http://127.0.0.1:${(deaf.address() as AddressInfo).port}`);
    const aborting = new AbortController();
    const source = { sentBytes: 0 };
    const stream = Readable.from(
      (function* () {
        for (const piece of endless()) {
          source.sentBytes += piece.length;
          yield piece;
        }
      })(),
    );
    stream.on('error', () => {});
    const called = call({ body: { byteLength: undefined, stream }, signal: aborting.signal });
    expect(await stalledAt(source)).toBeLessThan(16_777_216);
    aborting.abort(new Error('enough'));
    await expect(called).rejects.toThrow('enough');
    (await connected.promise).destroy();
    deaf.close();
    await once(deaf, 'close');
  });
});

describe('a slow reader', () => {
  it('holds the upstream back, with bounded buffering, until it goes on', async () => {
    server.play({ chunks: endless() });
    const aborting = new AbortController();
    const streamed = client.stream(post({ signal: aborting.signal }), receiver);
    await receiver.started.promise;
    receiver.flow?.pause();
    const call = await server.received(0);
    const stalled = await stalledAt(call);
    // What lies between is in the buffers of the two sockets, not here.
    const taken = receiver.byteLength;
    expect(taken).toBeLessThan(1_048_576);
    expect(stalled).toBeLessThan(16_777_216);
    receiver.flow?.resume();
    while (receiver.byteLength <= stalled) await receiver.next();
    aborting.abort(new Error('enough'));
    await expect(streamed).rejects.toThrow('enough');
  });

  it('may take longer than the upstream may be silent', async () => {
    await client.destroy();
    client = clientOf(server.url, { bodyTimeoutMs: 500 });
    // More than fits into the buffers on the way, so that most of it waits at the server.
    const pieces = Array.from({ length: 512 }, () => Buffer.alloc(65_536));
    server.play({ chunks: pieces });
    const streamed = client.stream(post(), receiver);
    await receiver.started.promise;
    receiver.flow?.pause();
    await new Promise((resolve) => setTimeout(resolve, 1_200));
    receiver.flow?.resume();
    await streamed;
    expect(receiver.byteLength).toBe(512 * 65_536);
  });

  it('and the clock of the silence runs again afterwards', async () => {
    await client.destroy();
    client = clientOf(server.url, { bodyTimeoutMs: 300 });
    server.play({ chunks: ['a', { end: 'hang' }] });
    const streamed = client.stream(post(), receiver);
    await receiver.started.promise;
    receiver.flow?.pause();
    await new Promise((resolve) => setTimeout(resolve, 700));
    receiver.flow?.resume();
    await receiver.seen('a');
    await expect(streamed).rejects.toMatchObject({ fault: 'timeout' });
  });
});

describe('an answer that nobody wants', () => {
  it('is read to its end when it is short, so that the connection serves again', async () => {
    server.play([{ status: 412, text: 'x'.repeat(60_000) }, { text: 'served' }]);
    receiver.isWanted = false;
    await client.stream(post(), receiver);
    expect(receiver.byteLength).toBe(0);
    await nextTurn();
    await client.stream(post(), new MemoryReceiver());
    expect(server.calls.map(({ connection }) => connection)).toEqual([0, 0]);
  });

  it('is cut when it is long, and the call counts as done', async () => {
    server.play({ status: 412, chunks: endless() });
    receiver.isWanted = false;
    await client.stream(post(), receiver);
    await server.calls[0]?.ended;
    expect(server.calls[0]?.aborted).toBe(true);
  });
});
