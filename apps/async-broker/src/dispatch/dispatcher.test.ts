import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { gzipSync } from 'node:zlib';
import { type Script, scriptedServer, type ScriptedServer } from '@llm-d/testing';
import { type Attempt } from './attempt.ts';
import { CallEnded } from './call-ended.ts';
import { Dispatcher } from './dispatcher.ts';

let upstream: ScriptedServer;
let dispatcher: Dispatcher;
const body = Buffer.from('{"model":"m", "n": 9007199254740993,\n"prompt":"\\u00e9"}');

beforeEach(async () => {
  upstream = await scriptedServer();
  dispatcher = open(upstream.url);
});
afterEach(async () => {
  await dispatcher.close();
  await upstream.close();
});

const open = (address: string, change: object = {}): Dispatcher =>
  new Dispatcher({
    address,
    connectTimeoutMs: 1_000,
    attemptTimeoutMs: 10_000,
    maxAnswerBytes: 1_000_000,
    ...change,
  });
const attempt = (script: Script, call: object = {}, by = dispatcher): Promise<Attempt> => {
  upstream.play(script);
  return by.attempt({
    path: '/v1/completions',
    headers: ['content-type', 'application/json', 'x-request-id', 'fresh'],
    body,
    remainingMs: 60_000,
    signal: new AbortController().signal,
    ...call,
  });
};

describe('an answer', () => {
  it('has the bytes and the type that came, and the request the bytes that were stored', async () => {
    const answer = {
      bytes: Buffer.from([0, 255, 10, 200]),
      headers: { 'content-type': 'a/b; c=d' },
    };
    expect(await attempt(answer)).toEqual({
      status: 200,
      contentType: 'a/b; c=d',
      body: answer.bytes,
      retryAfter: undefined,
      droppedReason: undefined,
    });
    expect(upstream.calls[0]?.body).toEqual(body);
    expect(upstream.calls[0]?.path).toBe('/v1/completions');
    expect(upstream.calls[0]?.headers).toMatchObject({ 'content-length': [String(body.length)] });
    expect(upstream.calls[0]?.headers).not.toHaveProperty('accept-encoding');
  });

  it('that is streamed is kept as the bytes of the stream', async () => {
    const pieces = ['data: {"a":1}\n\n', { wait: 5 }, 'data: [DONE]\n\n'];
    expect(
      await attempt({ chunks: pieces, headers: { 'content-type': 'text/event-stream' } }),
    ).toMatchObject({
      status: 200,
      contentType: 'text/event-stream',
      body: Buffer.from('data: {"a":1}\n\ndata: [DONE]\n\n'),
    });
  });

  it('of an error is kept whole, however long', async () => {
    const text = 'x'.repeat(50_000);
    expect(await attempt({ status: 500, text })).toMatchObject({
      status: 500,
      body: Buffer.from(text),
    });
  });

  it('tells what the gateway says of its capacity', async () => {
    const headers = { 'retry-after': '7', 'x-llm-d-request-dropped-reason': 'rejected-saturated' };
    expect(await attempt({ status: 429, headers })).toMatchObject({
      status: 429,
      retryAfter: '7',
      droppedReason: 'rejected-saturated',
    });
  });

  it('with a coding that nobody asked for is unpacked', async () => {
    const bytes = gzipSync('{"ok":true}');
    expect(await attempt({ bytes, headers: { 'content-encoding': 'gzip' } })).toMatchObject({
      body: Buffer.from('{"ok":true}'),
    });
  });
});

describe('an attempt without a whole answer', () => {
  it('is a connect fault when nobody listens', async () => {
    await upstream.close();
    expect(await attempt({})).toEqual({ fault: 'connect' });
  });

  it('is a connect fault when the connection breaks before a byte of the answer', async () => {
    expect(await attempt({ beforeHeaders: 'reset' })).toEqual({ fault: 'connect' });
  });

  it('is broken when it ends inside the answer', async () => {
    expect(await attempt({ chunks: ['{"a":', { wait: 20 }, { end: 'reset' }] })).toEqual({
      fault: 'broken',
    });
  });

  it('is given up over the limit', async () => {
    const small = open(upstream.url, { maxAnswerBytes: 10 });
    expect(await attempt({ text: 'x'.repeat(11) }, {}, small)).toEqual({ fault: 'too-large' });
    await small.close();
  });

  it('ends at the deadline', async () => {
    expect(await attempt({ beforeHeaders: 'hang' }, { remainingMs: 30 })).toEqual({
      fault: 'deadline',
    });
    expect(await attempt({}, { remainingMs: 0 })).toEqual({ fault: 'deadline' });
    expect(upstream.calls).toHaveLength(1);
  });

  it('ends at the attempt timeout when the deadline is later, also inside the answer', async () => {
    const hasty = open(upstream.url, { attemptTimeoutMs: 40 });
    expect(await attempt({ chunks: ['a', { end: 'hang' }] }, {}, hasty)).toEqual({
      fault: 'attempt-timeout',
    });
    await hasty.close();
  });

  it.each(['cancelled', 'shutdown', 'lock-lost'] as const)(
    'ends at an abort and says why: %s',
    async (fault) => {
      const control = new AbortController();
      const ending = attempt({ beforeHeaders: 'hang' }, { signal: control.signal });
      const call = await upstream.received(0);
      control.abort(new CallEnded(fault));
      expect(await ending).toEqual({ fault });
      await call.ended;
      expect(call.aborted).toBe(true);
    },
  );

  it('takes a bare text as reason for a cancellation, which is what BullMQ gives', async () => {
    const control = new AbortController();
    control.abort('by hand');
    expect(await attempt({}, { signal: control.signal })).toEqual({ fault: 'cancelled' });
    expect(upstream.calls).toHaveLength(0);
  });
});
