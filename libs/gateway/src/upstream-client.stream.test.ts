import { type Answer, scriptedServer, type ScriptedServer } from '@llm-d/testing';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { clientOf, MemoryReceiver, nextTurn, post } from './testing.ts';
import { type UpstreamClient } from './upstream-client.ts';

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
