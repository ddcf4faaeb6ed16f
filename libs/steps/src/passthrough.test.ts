import { Readable } from 'node:stream';
import { UpstreamClient } from '@llm-d/gateway';
import { ClientGoneError, ForwardedHeaders, headerPolicy } from '@llm-d/pipeline';
import { MemorySink } from '@llm-d/pipeline/testing';
import { scriptedServer, type ScriptedServer } from '@llm-d/testing';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { type ClientBody, Passthrough, type PassthroughRequest } from './passthrough.ts';

let gateway: ScriptedServer;
let sink: MemorySink;
let client: AbortController;
let passthrough: Passthrough;
let clients: UpstreamClient[] = [];

beforeEach(async () => {
  gateway = await scriptedServer();
  sink = new MemorySink();
  client = new AbortController();
  passthrough = open();
});
afterEach(async () => {
  await gateway.close();
  await Promise.all(clients.map((open) => open.destroy()));
  clients = [];
});

function open(
  options: {
    address?: string;
    trusts?: boolean;
    headersTimeoutMs?: number;
    bodyTimeoutMs?: number;
  } = {},
) {
  const { address = gateway.url, trusts = false } = options;
  const { headersTimeoutMs = 0, bodyTimeoutMs = 0 } = options;
  const upstream = new UpstreamClient({
    address,
    connectTimeoutMs: 5_000,
    headersTimeoutMs,
    bodyTimeoutMs,
    callTimeoutMs: 0,
    idleTimeoutMs: 30_000,
    maxAnswerBytes: 1,
  });
  clients.push(upstream);
  return new Passthrough({
    gateway: upstream,
    wire: { phaseHeader: 'EPP-Profile' },
    trustsClientTransferParams: trusts,
  });
}

/** A body that tells how it was taken. */
class Body implements ClientBody {
  readonly #bytes: Buffer;
  taken: 'no' | 'whole' | 'streamed' = 'no';

  constructor(bytes: string | Buffer) {
    this.#bytes = Buffer.from(bytes);
  }

  get byteLength(): number {
    return this.#bytes.length;
  }

  read(): Promise<Buffer> {
    this.taken = 'whole';
    return Promise.resolve(this.#bytes);
  }

  stream(): Readable {
    this.taken = 'streamed';
    return Readable.from([this.#bytes]);
  }
}

const request = (
  options: Partial<Omit<PassthroughRequest, 'headers'>> & { headers?: string[] } = {},
): PassthroughRequest => ({
  requestId: 'id-1',
  revisionDecisionId: 'decision-1',
  signal: client.signal,
  sink,
  method: 'POST',
  target: '/v1/embeddings',
  contentTypes: [],
  contentEncodings: [],
  body: undefined,
  arrivedAt: performance.now(),
  ...options,
  headers: ForwardedHeaders.from(options.headers ?? [], headerPolicy({ hasClientBody: true })),
});

/** What the gateway got of a body. */
async function sent(body: Body, options: Parameters<typeof request>[0] = {}): Promise<string> {
  await passthrough.serve(request({ body, ...options }));
  return gateway.calls[0]?.body.toString('utf8') ?? '';
}

describe('a request for another path', () => {
  it('goes to decode with method, query and headers, and our ids', async () => {
    const headers = ['content-type', 'text/plain', 'accept-encoding', 'br', 'x-a', '1', 'x-a', '2'];
    const target = '/tokenize?x=1&y=%2F..%2F';
    await passthrough.serve(request({ method: 'PATCH', target, headers }));
    expect(gateway.calls).toHaveLength(1);
    expect(gateway.calls[0]).toMatchObject({
      method: 'PATCH',
      path: target,
      headers: {
        'epp-profile': ['decode'],
        'x-request-id': ['id-1'],
        'x-llm-d-revision-decision-id': ['decision-1'],
        'content-type': ['text/plain'],
        'accept-encoding': ['br'],
        'x-a': ['1', '2'],
      },
    });
  });

  it.each(['http://client.example/v1/models?a=b', '/v1/models?a=b'])(
    'may be asked for as %s',
    async (target) => {
      await passthrough.serve(request({ method: 'GET', target }));
      expect(gateway.calls[0]?.path).toBe('/v1/models?a=b');
    },
  );

  it.each([
    ...['*', 'v1/models', 'http://host', '/..', '/../x', '/v1/../x', '/v1/%2e%2E/x', '/v1/.%2e'],
    ...['/v1/..?a', '/v1%2f..%2fx', '/v1/..\\x', '/a/..#b'],
  ])('is refused where its path could climb out of the prefix: %s', async (target) => {
    const refused = passthrough.serve(request({ target }));
    await expect(refused).rejects.toMatchObject({ status: 400, code: 'INVALID_PATH' });
    expect(gateway.calls).toEqual([]);
  });

  it.each(['/v1/...', '/v1/..x/y', '/v1/x..', '/.well-known/a', '//a//b/', '/a?b=/../c'])(
    'keeps the path %s',
    async (target) => {
      await passthrough.serve(request({ target }));
      expect(gateway.calls[0]?.path).toBe(target);
    },
  );
});

describe('transfer params of a client', () => {
  const params = '"kv_transfer_params":{"remote_host":"evil"}';

  it.each([
    { name: 'JSON', contentTypes: ['application/json; charset=utf-8'] },
    { name: 'a JSON dialect', contentTypes: ['Application/Vnd.X+JSON'] },
    { name: 'no content type', contentTypes: [] },
    { name: 'several content types', contentTypes: ['text/plain', 'application/json'] },
    { name: 'identity coding', contentTypes: [], contentEncodings: ['Identity'] },
  ])('are removed from a body with $name, other bytes stay', async (types) => {
    const body = new Body(`{ "seed":9007199254740993, ${params}, "b" : 1.0 }\n`);
    expect(await sent(body, types)).toBe('{ "seed":9007199254740993,"b" : 1.0 }\n');
    expect(gateway.calls[0]?.headers['content-length']).toEqual(['38']);
  });

  it.each(['{"a":1.0,\n"a" : "\\u00e4"}', '[1,2]', '{"a":NaN}', 'not json', '', '\ufeff{}'])(
    'are not looked for in vain: %j stays as it is',
    async (text) => {
      expect(await sent(new Body(text))).toBe(text);
    },
  );

  // json.loads of a Python worker reads all of these.
  it.each([
    { name: 'NaN beside them', bytes: `{${params},"a":NaN}` },
    { name: 'a byte order mark', bytes: `\ufeff{${params}}` },
    { name: 'an escaped name', bytes: `{"a":NaN,"\\u006bv_transfer\\u005fparams":{}}` },
    { name: 'UTF-16', bytes: Buffer.from(`{${params}}`, 'utf16le') },
    { name: 'a list', bytes: `[{${params}}]` },
  ])('are refused where only a worker could read them: $name', async ({ bytes }) => {
    const refused = passthrough.serve(request({ body: new Body(bytes) }));
    await expect(refused).rejects.toMatchObject({ status: 400, code: 'BAD_REQUEST' });
    expect(gateway.calls).toEqual([]);
  });

  it.each([
    { name: 'another content type', contentTypes: ['multipart/form-data; boundary=x'] },
    { name: 'a packed body', contentTypes: ['application/json'], contentEncodings: ['gzip'] },
  ])('are not looked for in $name, which is streamed', async (types) => {
    const body = new Body(`{${params}}`);
    expect(await sent(body, types)).toBe(`{${params}}`);
    expect(body.taken).toBe('streamed');
  });

  it('pass where the deployment trusts them', async () => {
    passthrough = open({ trusts: true });
    const body = new Body(`{${params}}`);
    expect(await sent(body)).toBe(`{${params}}`);
    expect(body.taken).toBe('streamed');
  });
});

describe('an answer', () => {
  it.each([
    { status: 202, text: 'taken' },
    { status: 307, text: '' },
    { status: 404, text: 'plain words' },
    { status: 429, text: '' },
    { status: 500, text: '' },
  ])('of the gateway reaches the client as it is: $status', async ({ status, text }) => {
    gateway.play({ status, text, headers: { 'content-type': 'text/plain', 'x-a': 'b' } });
    const served = passthrough.serve(request());
    if (status < 400) await served;
    else await expect(served).rejects.toMatchObject({ code: 'RESPONSE_STARTED', status });
    expect(sink).toMatchObject({ status, text, ended: 'whole' });
    expect(sink.headers.join()).toContain('x-a,b');
  });

  it('that never comes is an error of the passthrough', async () => {
    gateway.play({ beforeHeaders: 'reset' });
    await expect(passthrough.serve(request())).rejects.toMatchObject({
      step: 'passthrough',
      status: 502,
      code: 'UPSTREAM_UNREACHABLE',
    });
    expect(sink.isStarted).toBe(false);
  });

  it('that comes too late is a timeout', async () => {
    passthrough = open({ headersTimeoutMs: 100 });
    gateway.play({ beforeHeaders: 'hang' });
    await expect(passthrough.serve(request())).rejects.toMatchObject({
      status: 504,
      code: 'UPSTREAM_TIMEOUT',
    });
  });

  it('that falls silent ends with the error event of a stream, which has no [DONE]', async () => {
    passthrough = open({ bodyTimeoutMs: 100 });
    gateway.play({
      headers: { 'content-type': 'text/event-stream' },
      chunks: ['data: 1\n\n', { end: 'hang' }],
    });
    await expect(passthrough.serve(request())).rejects.toMatchObject({ code: 'RESPONSE_STARTED' });
    expect(sink.text).toMatch(/^data: 1\n\ndata: \{"error".*"status":504\}\}\n\n$/);
  });

  it('shares the connections of the legs', async () => {
    await passthrough.serve(request());
    await new Promise((resolve) => setImmediate(resolve));
    const [upstream] = clients;
    await upstream?.call({
      path: '/v1/completions',
      headers: [],
      body: { byteLength: 2, chunks: [Buffer.from('{}')] },
      signal: client.signal,
    });
    expect(gateway.connectionCount).toBe(1);
  });

  it('is not waited for when the client leaves', async () => {
    gateway.play({ beforeHeaders: 'hang' });
    const served = passthrough.serve(request());
    const call = await gateway.received(0);
    client.abort(new ClientGoneError());
    await expect(served).rejects.toMatchObject({ code: 'CLIENT_GONE' });
    await call.ended;
    expect(call.aborted).toBe(true);
  });

  it.each([
    { type: 'text/event-stream', ended: 'whole', text: /^data: 1\n\ndata: \{"error":.*\}\n\n$/ },
    { type: 'application/json', ended: 'cut', text: /^data: 1\n\n$/ },
  ])('of $type that breaks off is never taken for whole', async ({ type, ended, text }) => {
    gateway.play({
      headers: { 'content-type': type },
      chunks: ['data: 1\n\n', { wait: 20 }, { end: 'reset' }],
    });
    await expect(passthrough.serve(request())).rejects.toMatchObject({ status: 0 });
    expect(sink.ended).toBe(ended);
    expect(sink.text).toMatch(text);
  });
});
