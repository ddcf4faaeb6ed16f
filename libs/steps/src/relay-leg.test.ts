import { gzipSync } from 'node:zlib';
import { JsonRaw } from '@llm-d/json-document';
import { AnswerTimeoutError, ClientGoneError } from '@llm-d/pipeline';
import { MemorySink, requestContext } from '@llm-d/pipeline/testing';
import { type Answer, type Piece } from '@llm-d/testing';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { maxHeldBytes } from './held-answer.ts';
import { relayLeg } from './relay-leg.ts';
import { Rig } from './testing.ts';

/** A sink that tells when something arrives. */
class WatchedSink extends MemorySink {
  keepAlive: 'armed' | 'begun' | undefined;
  #arrival = Promise.withResolvers<void>();

  override write(chunk: Uint8Array): boolean {
    const isTaken = super.write(chunk);
    this.#arrival.resolve();
    this.#arrival = Promise.withResolvers();
    return isTaken;
  }

  async seen(text: string): Promise<void> {
    while (!this.text.includes(text)) await this.#arrival.promise;
  }
}

let rig: Rig;
let sink: WatchedSink;
let client: AbortController;
beforeEach(async () => {
  rig = await Rig.open();
  sink = new WatchedSink();
  client = new AbortController();
});
afterEach(() => rig.close());

function relay(
  options: {
    headers?: string[];
    own?: string[];
    deferStatus?: number;
    bodyTimeoutMs?: number;
    isStreaming?: boolean;
  } = {},
) {
  const { bodyTimeoutMs = 0 } = options;
  const dependencies = rig.dependencies({ gatewayOptions: { bodyTimeoutMs } });
  const ctx = requestContext({
    sink,
    signal: client.signal,
    headers: options.headers ?? [],
    body: { model: 'm', stream: options.isStreaming ?? true },
  });
  const done = relayLeg(ctx, dependencies, {
    step: 'decode',
    client: dependencies.gateway,
    path: '/v1/chat/completions',
    body: new JsonRaw([Buffer.from('{}')]),
    ...(options.own ? { headers: options.own } : {}),
    ...(options.deferStatus === undefined ? {} : { deferStatus: options.deferStatus }),
  });
  return { ctx, done };
}

const events = (...pieces: Piece[]): Answer => ({
  headers: { 'content-type': 'text/event-stream; charset=utf-8' },
  chunks: pieces,
});

/** The events of a stream that a client would read as JSON, in order. */
const errorEvents = (text: string): unknown[] =>
  text
    .split('\n\n')
    .filter((event) => event.includes('"error"'))
    .map((event) => JSON.parse(event.replace(/^data: /, '')) as unknown);

describe('an answer that is relayed', () => {
  it('reaches the client with status, headers and bytes as they are', async () => {
    rig.gateway.play({
      status: 201,
      headers: {
        'content-type': 'application/json',
        'set-cookie': ['a=1', 'b=2'],
        'X-Custom': 'v',
      },
      text: '{"logprobs":[-Infinity,NaN],"n":9007199254740993}',
    });
    const { ctx, done } = relay();
    expect(await done).toBe(true);
    expect(sink).toMatchObject({
      status: 201,
      ended: 'whole',
      text: '{"logprobs":[-Infinity,NaN],"n":9007199254740993}',
    });
    const headers = sink.headers.join('\n');
    expect(headers).toContain('set-cookie\na=1\nset-cookie\nb=2');
    expect(headers).toContain('X-Custom\nv');
    expect(headers).toContain('content-length\n49');
    expect(ctx.timeline).toMatchObject([
      { name: 'decode', kind: 'leg', status: 201, endMs: expect.any(Number) },
    ]);
  });

  it.each([
    { name: 'let go when a worker has begun with the answer', answer: { text: 'ok' }, kept: 0 },
    {
      name: 'kept after a refusal, for a leg that gives the hand-off back',
      answer: { status: 400, json: { error: 'no' } },
      kept: 2,
    },
    {
      name: 'kept where the worker defers to other steps',
      answer: { status: 412, json: {} },
      deferStatus: 412,
      kept: 2,
    },
  ])('has the prompt $name', async ({ answer, kept, ...options }) => {
    rig.gateway.play(answer);
    const { ctx, done } = relay(options);
    await done.catch(() => {});
    expect(ctx.body.keys()).toHaveLength(kept);
  });

  it('loses the headers of this hop and the request id of the worker', async () => {
    rig.gateway.play({
      headers: {
        'x-request-id': 'test-1-decode',
        'keep-alive': 'timeout=5',
        'proxy-authenticate': 'x',
        trailer: 'y',
        upgrade: 'h2c',
      },
      chunks: ['x'],
    });
    await relay().done;
    const names = sink.headers.filter((_, i) => i % 2 === 0).map((name) => name.toLowerCase());
    expect(names).toEqual(['date']);
  });

  it('goes on to the client while it arrives', async () => {
    const gate = Promise.withResolvers<void>();
    rig.gateway.play(events('data: 1\n\n', { wait: gate.promise }, 'data: [DONE]\n\n'));
    const { done } = relay();
    await sink.seen('data: 1');
    expect(sink.ended).toBe('no');
    gate.resolve();
    await done;
    expect(sink.text).toBe('data: 1\n\ndata: [DONE]\n\n');
  });

  it('keeps its coding, for which the client may ask', async () => {
    const bytes = gzipSync('data: 1\n\n');
    rig.gateway.play({ headers: { 'content-encoding': 'gzip' }, bytes });
    await relay({ headers: ['Accept-Encoding', 'gzip, br'] }).done;
    expect(rig.gateway.calls[0]?.headers['accept-encoding']).toEqual(['gzip, br']);
    expect(sink.headers.join()).toContain('content-encoding,gzip');
    expect(Buffer.concat(sink.pieces).equals(bytes)).toBe(true);
  });

  it('may be a redirect, which is not followed', async () => {
    rig.gateway.play({ status: 307, headers: { location: '/other' } });
    expect(await relay().done).toBe(true);
    expect(sink.status).toBe(307);
    expect(rig.gateway.calls).toHaveLength(1);
  });

  it.each([400, 429, 500, 502, 503])(
    'may be a %i, which is the client’s answer and still a failure',
    async (status) => {
      rig.gateway.play({ status, headers: { 'retry-after': '3' }, json: { error: 'worker' } });
      await expect(relay().done).rejects.toMatchObject({ code: 'RESPONSE_STARTED', status });
      expect(sink).toMatchObject({ status, text: '{"error":"worker"}', ended: 'whole' });
      expect(sink.headers.join()).toContain('retry-after,3');
    },
  );

  it('carries headers of its leg', async () => {
    await relay({ own: ['prefer', 'if-available'], headers: ['Prefer', 'mine'] }).done;
    expect(rig.gateway.calls[0]?.headers).toMatchObject({
      prefer: ['if-available'],
      'epp-profile': ['decode'],
    });
  });
});

describe('an answer with the status that means "not here"', () => {
  it('never reaches the client', async () => {
    rig.gateway.play({ status: 412, text: 'not here' });
    const { ctx, done } = relay({ deferStatus: 412 });
    expect(await done).toBe(false);
    expect(sink).toMatchObject({ isStarted: false, ended: 'no' });
    expect(ctx.timeline[0]?.status).toBe(412);
  });

  it('is an answer like any other where it was not asked for', async () => {
    rig.gateway.play({ status: 412, json: {} });
    await expect(relay().done).rejects.toMatchObject({ status: 412 });
    expect(sink.status).toBe(412);
  });
});

describe('an error that is no JSON', () => {
  // design.md decision 16: a gateway answers for a pod, in its own words or with nothing.
  it.each([
    {
      name: 'text',
      answer: { status: 429, headers: { 'content-type': 'text/plain' }, text: 'SECRET' },
    },
    {
      name: 'HTML',
      answer: { status: 502, headers: { 'content-type': 'text/html' }, text: '<html>SECRET' },
    },
    { name: 'nothing', answer: { status: 502 } },
  ])('but $name is left to the error table', async ({ answer }) => {
    rig.gateway.play(answer);
    await expect(relay().done).rejects.toMatchObject({
      code: 'UPSTREAM_ERROR',
      upstreamStatus: answer.status,
      message: `decode: upstream returned HTTP ${answer.status}`,
    });
    expect(sink).toMatchObject({ isStarted: false, ended: 'no', text: '' });
  });

  // gateway-verified.md 10, rule 2
  it.each([
    { status: 429, reason: 'rejected-saturated', text: 'x', code: 'GATEWAY_NO_CAPACITY' },
    { status: 503, reason: 'rejected-no-endpoints', text: 'x', code: 'GATEWAY_NO_CAPACITY' },
    { status: 500, text: '', code: 'GATEWAY_PICKER_DOWN' },
    { status: 503, text: '', code: 'GATEWAY_PICKER_DOWN' },
    { status: 503, text: 'upstream connect error', code: 'UPSTREAM_ERROR' },
  ])('tells who gave it: $status with "$text" is $code', async ({ status, reason, text, code }) => {
    const headers = reason === undefined ? {} : { 'x-llm-d-request-dropped-reason': reason };
    rig.gateway.play({ status, headers, text });
    await expect(relay().done).rejects.toMatchObject({ code, upstreamStatus: status });
  });

  it.each([
    { status: 429, passed: ['retry-after', '3', 'x-should-retry', 'true'] },
    { status: 503, passed: ['retry-after', '3', 'x-should-retry', 'true'] },
    { status: 500, passed: [] },
  ])('and a $status tells the client when to come back: $passed', async ({ status, passed }) => {
    rig.gateway.play({
      status,
      headers: { 'x-other': '1', 'retry-after': '3', 'x-should-retry': 'true' },
      text: 'x',
    });
    await expect(relay().done).rejects.toMatchObject({ headers: passed });
  });

  it.each(['application/json', 'application/json; charset=utf-8', 'application/problem+json'])(
    'is not one of type %s',
    async (type) => {
      rig.gateway.play({ status: 400, headers: { 'content-type': type }, text: '{}' });
      await expect(relay().done).rejects.toMatchObject({ code: 'RESPONSE_STARTED', status: 400 });
      expect(sink).toMatchObject({ status: 400, text: '{}' });
    },
  );
});

describe('a worker that fails before its answer', () => {
  it.each(['reset', 'close'] as const)(
    'with a %s leaves the answer to the error table',
    async (beforeHeaders) => {
      rig.gateway.play({ beforeHeaders });
      await expect(relay().done).rejects.toMatchObject({ name: 'TransportError', fault: 'reset' });
      expect(sink.isStarted).toBe(false);
      expect(rig.gateway.calls).toHaveLength(1);
    },
  );
});

describe('JSON for a request that is not streamed', () => {
  const type = { 'content-type': 'application/json' };
  const plain = { ...type, 'content-length': '7' };

  it.each([
    { name: 'by a reset', end: { end: 'reset' } as const, fault: 'reset' },
    { name: 'by a close', end: { end: 'close' } as const, fault: 'reset' },
    { name: 'by silence', end: { end: 'hang' } as const, fault: 'timeout' },
  ])('that breaks off $name is left to the error table: C03', async ({ end, fault }) => {
    rig.gateway.play({ headers: plain, chunks: ['{"a":', { wait: 20 }, end] });
    const { done } = relay({ isStreaming: false, bodyTimeoutMs: fault === 'timeout' ? 200 : 0 });
    await expect(done).rejects.toMatchObject({ name: 'TransportError', fault });
    expect(sink).toMatchObject({ isStarted: false, text: '', ended: 'no' });
  });

  it('goes out whole, as it is', async () => {
    const headers = { ...plain, 'x-a': '1' };
    rig.gateway.play({ status: 201, headers, chunks: ['{"a":', { wait: 20 }, '1}'] });
    await relay({ isStreaming: false }).done;
    expect(sink).toMatchObject({ status: 201, text: '{"a":1}', ended: 'whole' });
    expect(sink.headers.join()).toContain('x-a,1');
  });

  it('flows as it comes when its length is not known: coordinator.md 2.11', async () => {
    const gate = Promise.withResolvers<void>();
    rig.gateway.play({ headers: type, chunks: ['{"a":', { wait: gate.promise }, '1}'] });
    const { done } = relay({ isStreaming: false });
    await sink.seen('{"a":');
    gate.resolve();
    await done;
    expect(sink).toMatchObject({ text: '{"a":1}', ended: 'whole' });
  });

  it('may be empty', async () => {
    rig.gateway.play({ headers: { ...plain, 'content-length': '0' }, text: '' });
    await relay({ isStreaming: false }).done;
    expect(sink).toMatchObject({ status: 200, text: '', ended: 'whole' });
  });

  it('is kept back up to its limit, and flows from there on', async () => {
    const gate = Promise.withResolvers<void>();
    const half = Buffer.alloc(maxHeldBytes / 2, 'x');
    rig.gateway.play({
      headers: { ...plain, 'content-length': String(2 * maxHeldBytes) },
      chunks: [half, half, 'over', { wait: gate.promise }, { end: 'close' }],
    });
    const { done } = relay({ isStreaming: false });
    const failed = expect(done).rejects.toMatchObject({ code: 'RESPONSE_STARTED', status: 0 });
    await sink.seen('over');
    expect(sink.text).toHaveLength(maxHeldBytes + 4);
    gate.resolve();
    await failed;
    expect(sink.ended).toBe('cut');
  });
});

describe('a stream that has begun with comments', () => {
  beforeEach(() => {
    sink.keepAlive = 'begun';
    // The real one sends nothing a second time.
    sink.start = () => {};
    sink.status = 200;
  });

  it('goes on with the events of the worker, whatever length they promise', async () => {
    rig.gateway.play({ headers: { 'content-type': 'text/event-stream' }, text: 'data: 1\n\n' });
    await relay().done;
    expect(sink).toMatchObject({ text: 'data: 1\n\n', ended: 'whole' });
  });

  it.each([
    { name: 'an error', answer: { status: 400, json: {} }, code: 'UPSTREAM_ERROR', status: 400 },
    {
      name: 'an overload',
      answer: { status: 503, text: 'x' },
      code: 'UPSTREAM_ERROR',
      status: 503,
    },
    {
      name: 'JSON',
      answer: { status: 200, json: {} },
      code: 'UPSTREAM_ANSWER_INVALID',
      status: 502,
    },
    {
      name: 'packed events',
      answer: {
        headers: { 'content-type': 'text/event-stream', 'content-encoding': 'gzip' },
        text: 'x',
      },
      code: 'UPSTREAM_ANSWER_INVALID',
      status: 502,
    },
  ])('leaves $name to the error table', async ({ answer, code, status }) => {
    rig.gateway.play(answer);
    await expect(relay().done).rejects.toMatchObject({ code, status });
    expect(sink).toMatchObject({ text: '', ended: 'no' });
  });

  it('leaves a worker that does not answer to the error table', async () => {
    rig.gateway.play({ beforeHeaders: 'reset' });
    await expect(relay().done).rejects.toMatchObject({ fault: 'reset' });
    expect(sink).toMatchObject({ text: '', ended: 'no' });
  });

  it.each(['armed', 'begun'] as const)('asks for no coding: %s', async (state) => {
    sink.keepAlive = state;
    rig.gateway.play({ headers: { 'content-type': 'text/event-stream' }, text: 'data: 1\n\n' });
    await relay({ headers: ['accept-encoding', 'gzip'] }).done;
    expect(rig.gateway.calls[0]?.headers['accept-encoding']).toBeUndefined();
  });
});

describe('a stream that breaks', () => {
  // BerriAI/litellm#33404, smg-project/smg#1682: a bare end reads as success.
  it.each([
    { name: 'by a reset', end: { end: 'reset' } as const, code: 'UPSTREAM_UNREACHABLE' },
    {
      name: 'by a close without its end',
      end: { end: 'close' } as const,
      code: 'UPSTREAM_UNREACHABLE',
    },
    { name: 'by silence', end: { end: 'hang' } as const, code: 'UPSTREAM_TIMEOUT' },
  ])('$name ends with one error event after what came before: C03', async ({ end, code }) => {
    const isSeen = Promise.withResolvers<void>();
    const five = Array.from({ length: 5 }, (_, i) => `data: {"i":${i}}\n\n`);
    rig.gateway.play(events(...five, { wait: isSeen.promise }, end));
    const { done } = relay({ bodyTimeoutMs: end.end === 'hang' ? 300 : 0 });
    const failed = expect(done).rejects.toMatchObject({ code: 'RESPONSE_STARTED', status: 0 });
    await sink.seen('{"i":4}');
    isSeen.resolve();
    await failed;
    expect(sink.text.startsWith(five.join(''))).toBe(true);
    expect(errorEvents(sink.text)).toEqual([
      {
        error: expect.objectContaining({
          code,
          step: 'decode',
          request_id: 'test-1',
          type: 'server_error',
          status: code === 'UPSTREAM_TIMEOUT' ? 504 : 502,
        }),
      },
    ]);
    expect(sink.text).not.toContain('[DONE]');
    expect(sink.text).not.toContain('finish_reason');
    expect(sink.ended).toBe('whole');
    expect(rig.gateway.calls).toHaveLength(1);
  });

  it.each([
    { name: 'between two events', piece: 'data: 1\n\n', separator: '' },
    { name: 'between two events with carriage returns', piece: 'data: 1\r\n\r\n', separator: '' },
    { name: 'inside an event', piece: 'data: {"half', separator: '\n\n' },
    { name: 'after one line', piece: 'data: 1\n', separator: '\n\n' },
  ])('$name keeps the error event apart', async ({ piece, separator }) => {
    const isSeen = Promise.withResolvers<void>();
    rig.gateway.play(events(piece, { wait: isSeen.promise }, { end: 'close' }));
    const { done } = relay();
    const failed = expect(done).rejects.toThrow();
    await sink.seen('data: ');
    isSeen.resolve();
    await failed;
    expect(sink.text).toMatch(/data: \{"error".*\}\n\n$/);
    expect(sink.text.startsWith(`${piece}${separator}data: {"error"`)).toBe(true);
  });

  it.each([
    { name: 'plain JSON', headers: { 'content-type': 'application/json' } },
    {
      name: 'JSON of a promised length',
      headers: { 'content-type': 'application/json', 'content-length': '1000' },
    },
    {
      name: 'events of a promised length',
      headers: { 'content-type': 'text/event-stream', 'content-length': '1000' },
    },
    {
      name: 'packed events',
      headers: { 'content-type': 'text/event-stream', 'content-encoding': 'gzip' },
    },
  ])('and is $name is cut, so that it cannot look whole', async ({ headers }) => {
    rig.gateway.play({ headers, chunks: ['short', { end: 'close' }] });
    await expect(relay().done).rejects.toMatchObject({ code: 'RESPONSE_STARTED', status: 0 });
    expect(sink).toMatchObject({ status: 200, text: 'short', ended: 'cut' });
  });

  it('because the time for the answer is over says so in its error event', async () => {
    rig.gateway.play(events('data: 1\n\n', { end: 'hang' }));
    const { done } = relay();
    await sink.seen('data: 1');
    client.abort(new AnswerTimeoutError(120_000));
    await expect(done).rejects.toMatchObject({ code: 'ANSWER_TIMEOUT' });
    expect(errorEvents(sink.text)).toMatchObject([
      { error: { code: 'ANSWER_TIMEOUT', step: 'decode' } },
    ]);
    expect(sink.ended).toBe('whole');
  });

  it('keeps its cause for the log', async () => {
    rig.gateway.play(events('data: 1\n\n', { end: 'close' }));
    const error = (await relay().done.catch((caught: unknown) => caught)) as Error;
    expect(error.cause).toMatchObject({ name: 'TransportError', fault: 'reset' });
  });
});

describe('a client that leaves', () => {
  it('before the leg: nothing is sent', async () => {
    client.abort(new ClientGoneError());
    await expect(relay().done).rejects.toMatchObject({ code: 'CLIENT_GONE' });
    expect(rig.gateway.calls).toEqual([]);
  });

  it('before the first byte: the worker sees it', async () => {
    rig.gateway.play({ beforeHeaders: 'hang' });
    const { done } = relay();
    const call = await rig.gateway.received(0);
    client.abort(new ClientGoneError());
    await expect(done).rejects.toMatchObject({ code: 'CLIENT_GONE' });
    await call.ended;
    expect(call.aborted).toBe(true);
    expect(sink.isStarted).toBe(false);
  });

  it('in the stream: the worker sees it, and no event is written for nobody', async () => {
    rig.gateway.play(events('data: 1\n\n', { end: 'hang' }));
    const { done } = relay();
    await sink.seen('data: 1');
    client.abort(new ClientGoneError());
    await expect(done).rejects.toMatchObject({ code: 'CLIENT_GONE' });
    await rig.gateway.calls[0]?.ended;
    expect(rig.gateway.calls[0]?.aborted).toBe(true);
    expect(sink).toMatchObject({ text: 'data: 1\n\n', ended: 'cut' });
  });
});

describe('a client that reads slowly', () => {
  function* endless(): Generator<Uint8Array> {
    for (;;) yield Buffer.alloc(65_536);
  }

  // smg-project/smg#2097, #2201: bounded buffers, and no stall where the client is the one that waits.
  it('holds the worker back and is not taken for a worker that stalls', async () => {
    rig.gateway.play({ chunks: endless() });
    sink.accepts = false;
    const { done } = relay({ bodyTimeoutMs: 300 });
    await sink.seen('\0');
    const [call] = rig.gateway.calls;
    let before = -1;
    while (call?.sentBytes !== before) {
      before = call?.sentBytes ?? 0;
      await new Promise((resolve) => setTimeout(resolve, 400));
    }
    const held = sink.pieces.length;
    expect(held).toBe(1);
    expect(before).toBeLessThan(16_777_216);
    sink.drain();
    while (sink.pieces.length === held) await new Promise((resolve) => setImmediate(resolve));
    client.abort(new ClientGoneError());
    await expect(done).rejects.toMatchObject({ code: 'CLIENT_GONE' });
  });
});
