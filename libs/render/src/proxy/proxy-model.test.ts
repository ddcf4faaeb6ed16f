import { setTimeout as sleep } from 'node:timers/promises';

import { afterEach, describe, expect, it } from '@jest/globals';
import {
  scriptedServer,
  type Answer,
  type RecordedCall,
  type ScriptedServer,
} from '@llm-d/testing';

import { RenderError } from '../errors.ts';
import { ProxyModel } from './proxy-model.ts';
import { type ProxySettings, type ProxySink } from './proxy-request.ts';
import { UpstreamGroup } from './upstream-group.ts';
import { type UpstreamTimes } from './upstream.ts';

const CHAT = '/v1/chat/completions/render';
const COMPLETIONS = '/v1/completions/render';
const hi = { model: 'mine', messages: [{ role: 'user', content: 'hi' }] };
const object = { request_id: 'chatcmpl-1', token_ids: [1, 2], features: null, model: 'org/theirs' };
const media = {
  mm_hashes: { image: ['h'] },
  mm_placeholders: { image: [{ offset: 0, length: 1 }] },
};

/** Keeps what it is given; `room` says how many writes it takes before it asks to hold back. */
class MemorySink implements ProxySink {
  status = 0;
  headers: readonly string[] = [];
  pieces: Uint8Array[] = [];
  isEnded = false;
  room = Infinity;
  drain: (() => void)[] = [];

  start(status: number, headers: readonly string[]): void {
    this.status = status;
    this.headers = headers;
  }

  write(chunk: Uint8Array): boolean {
    this.pieces.push(chunk);
    this.room -= 1;
    return this.room > 0;
  }

  onDrain(callback: () => void): void {
    this.drain.push(callback);
  }

  end(): void {
    this.isEnded = true;
  }

  get json(): unknown {
    return JSON.parse(Buffer.concat(this.pieces).toString()) as unknown;
  }

  header(name: string): string | undefined {
    const at = this.headers.indexOf(name);
    return at === -1 ? undefined : this.headers[at + 1];
  }
}

let servers: ScriptedServer[] = [];
let group: UpstreamGroup;
let events: string[];

afterEach(async () => {
  await group.close();
  await Promise.all(servers.map((server) => server.close()));
  servers = [];
});

type Script = Answer | ((call: RecordedCall) => Answer);

/** A render server: healthy, telling nothing about its routes, answering renders by the script. */
async function renderServer(script: Script, paths?: readonly string[]): Promise<ScriptedServer> {
  const server = await scriptedServer((call) => {
    switch (call.path) {
      case '/health':
        return {};
      case '/v1/models':
        return { json: { data: [{ id: 'org/theirs', root: '/models/theirs', max_model_len: 9 }] } };
      case '/openapi.json':
        return paths === undefined
          ? { status: 404 }
          : { json: { paths: Object.fromEntries(paths.map((path) => [path, {}])) } };
      default:
        return typeof script === 'function' ? script(call) : script;
    }
  });
  servers.push(server);
  return server;
}

/** A proxy in front of servers with these scripts; the first of them is asked first. */
async function proxyTo(
  scripts: readonly Script[],
  settings: Partial<ProxySettings> = {},
  times: Partial<UpstreamTimes> = {},
): Promise<ProxyModel> {
  for (const script of scripts) await renderServer(script);
  return proxyFor(servers, settings, times);
}

async function proxyFor(
  upstreams: readonly ScriptedServer[],
  settings: Partial<ProxySettings> = {},
  times: Partial<UpstreamTimes> = {},
): Promise<ProxyModel> {
  group = new UpstreamGroup(
    upstreams.map(({ url }) => url),
    times,
    () => 0,
  );
  await group.start();
  events = [];
  return new ProxyModel(
    group,
    {
      model: undefined,
      withoutToolChoice: false,
      normalise: 'light',
      maxAnswerBytes: 100 << 20,
      ...settings,
    },
    {
      called: (index, outcome) => events.push(`${index} ${outcome}`),
      ejected: (index) => events.push(`${index} ejected`),
      retried: () => events.push('retried'),
    },
  );
}

async function ask(
  proxy: ProxyModel,
  options: {
    path?: string;
    body?: unknown;
    headers?: Record<string, string>;
    signal?: AbortSignal;
    sink?: MemorySink;
  } = {},
): Promise<MemorySink> {
  const { path = CHAT, body = hi, headers = {}, sink = new MemorySink() } = options;
  const signal = options.signal ?? new AbortController().signal;
  const bytes = Buffer.from(typeof body === 'string' ? body : JSON.stringify(body));
  await proxy.answer({ path, body: bytes, headers, signal }, sink);
  return sink;
}

const renders = (server: ScriptedServer): readonly RecordedCall[] =>
  server.calls.filter(({ method }) => method === 'POST');
const refusal = async (answer: Promise<unknown>): Promise<Partial<RenderError>> => {
  const error: unknown = await answer.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(RenderError);
  const { status, type, message } = error as RenderError;
  return { status, type, message };
};

describe('a proxied request', () => {
  it('reaches the upstream without what is not for it, and with nothing else changed', async () => {
    const proxy = await proxyTo([{ json: object }], { model: 'org/theirs' });
    const body =
      '{ "model":"mine", "stream":true, "seed":12345678901234567890, "stream_options":{}, "messages":[{"role":"user","content":"\\u00e9"}], "kv_transfer_params":{"a":1}, "x":1.0 }';
    await ask(proxy, {
      body,
      headers: { authorization: 'Bearer t', cookie: 'c', 'x-request-id': 'r', traceparent: 'p' },
    });
    const [call] = renders(servers[0] as ScriptedServer);
    expect(call?.body.toString()).toBe(
      '{ "model":"org/theirs","seed":12345678901234567890,"messages":[{"role":"user","content":"\\u00e9"}],"x":1.0 }',
    );
    expect(call?.headers).toMatchObject({
      authorization: ['Bearer t'],
      'x-request-id': ['r'],
      traceparent: ['p'],
      'content-type': ['application/json'],
    });
    expect(call?.headers).not.toHaveProperty('cookie');
  });

  it.each([
    { name: 'mm_payload', body: { ...hi, mm_payload: 'none' } },
    { name: 'its older name', body: { ...hi, return_mm_kwargs: false } },
  ])('asks every era for the cheap mode, from $name', async ({ body }) => {
    const proxy = await proxyTo([{ json: object }]);
    await ask(proxy, { body });
    expect(renders(servers[0] as ScriptedServer)[0]?.json()).toMatchObject({
      mm_payload: 'none',
      return_mm_kwargs: false,
    });
  });

  it.each([
    { choice: 'auto', tools: true, sent: 'none' },
    { choice: 'required', tools: true, sent: 'none' },
    { choice: undefined, tools: true, sent: 'none' },
    { choice: 'none', tools: true, sent: 'none' },
    { choice: undefined, tools: false, sent: undefined },
  ])('sends tool_choice $sent for $choice where there is no parser', async (row) => {
    const proxy = await proxyTo([{ json: object }], { withoutToolChoice: true });
    const body = { ...hi, tool_choice: row.choice, ...(row.tools && { tools: [{}] }) };
    await ask(proxy, { body });
    const sent = renders(servers[0] as ScriptedServer)[0]?.json();
    expect((sent as { tool_choice?: string }).tool_choice).toBe(row.sent);
  });

  it('tells reasoning under both names', async () => {
    const proxy = await proxyTo([{ json: object }]);
    const messages = [{ role: 'assistant', content: 'a', reasoning_content: 'why' }];
    await ask(proxy, { body: { messages } });
    expect(renders(servers[0] as ScriptedServer)[0]?.json()).toEqual({
      messages: [{ role: 'assistant', content: 'a', reasoning_content: 'why', reasoning: 'why' }],
    });
  });

  it('is refused here when it is no JSON', async () => {
    const proxy = await proxyTo([{ json: object }]);
    expect(await refusal(ask(proxy, { body: '{"a":' }))).toMatchObject({ status: 400 });
    expect(renders(servers[0] as ScriptedServer)).toHaveLength(0);
  });
});

describe('an answer', () => {
  it('gets the caller\u2019s name of the model back, and says where it comes from', async () => {
    const proxy = await proxyTo([{ json: object }], { model: 'org/theirs' });
    const sink = await ask(proxy);
    expect(sink.json).toEqual({ ...object, model: 'mine' });
    expect(sink.header('x-render-mode')).toBe('proxy');
    expect(sink.header('x-render-upstream')).toBe('0');
    expect(sink.isEnded).toBe(true);
    expect(events).toEqual(['0 served']);
  });

  it('keeps its bytes and its length when no name is changed', async () => {
    const text = '{ "token_ids" : [1] , "n": 1.0 }';
    const proxy = await proxyTo([
      { text, headers: { 'content-type': 'application/json; charset=utf-8' } },
    ]);
    const sink = await ask(proxy);
    expect(Buffer.concat(sink.pieces).toString()).toBe(text);
    expect(sink.header('content-length')).toBe(String(text.length));
  });

  it('passes by at the pace of the caller, 33 MB never held here', async () => {
    const blob = Buffer.alloc(1 << 20, 'A');
    let sent = 0;
    const chunks = function* (): Generator<Uint8Array | string> {
      yield '{"token_ids":[1],"features":{"kwargs_data":{"image":["';
      for (; sent < 33; sent++) yield blob;
      yield '"]}},"model":"org/theirs"}';
    };
    const proxy = await proxyTo(
      [() => ({ chunks: chunks(), headers: { 'content-type': 'application/json' } })],
      { model: 'org/theirs' },
    );
    const sink = new MemorySink();
    sink.room = 1;
    const answered = ask(proxy, { sink });
    while (sink.pieces.length === 0) await sleep(5);
    await sleep(100);
    // What the sockets in between take, and no more.
    expect(sent).toBeLessThan(20);
    let length = 0;
    const reading = setInterval(() => {
      length += sink.pieces.splice(0).reduce((sum, piece) => sum + piece.length, 0);
      sink.room = 16;
      for (const callback of sink.drain) callback();
    }, 1);
    await answered;
    clearInterval(reading);
    length += sink.pieces.reduce((sum, piece) => sum + piece.length, 0);
    expect(length).toBeGreaterThan(33 << 20);
    expect(Buffer.concat(sink.pieces).toString('latin1').slice(-40)).toContain('"model":"mine"}');
  });

  it('that breaks off after it has begun is cut, not tried again', async () => {
    const broken = {
      chunks: ['{"token_ids":[', { end: 'reset' as const }],
      headers: { 'content-type': 'application/json' },
    };
    const proxy = await proxyTo([broken, { json: object }]);
    const sink = new MemorySink();
    await expect(ask(proxy, { sink })).rejects.toThrow();
    expect(sink.status === 200 && !sink.isEnded).toBe(true);
    expect(renders(servers[1] as ScriptedServer)).toHaveLength(0);
  });

  it('longer than allowed is refused or cut', async () => {
    const proxy = await proxyTo([{ json: object }], { maxAnswerBytes: 20 });
    expect(await refusal(ask(proxy))).toMatchObject({ status: 502 });
  });

  it.each([
    { name: 'a list on the chat route', path: CHAT, answer: { json: [object] } },
    { name: 'an object on the list route', path: COMPLETIONS, answer: { json: object } },
    {
      name: 'a page',
      path: CHAT,
      answer: { text: '<html>', headers: { 'content-type': 'text/html' } },
    },
    { name: 'nothing', path: CHAT, answer: { headers: { 'content-type': 'application/json' } } },
    { name: 'a redirect', path: CHAT, answer: { status: 302, headers: { location: '/x' } } },
  ])('of another era is 502: $name', async ({ path, answer }) => {
    const proxy = await proxyTo([answer]);
    expect(await refusal(ask(proxy, { path }))).toMatchObject({
      status: 502,
      type: 'UpstreamError',
      message: expect.stringMatching(/unsupported_render_version/),
    });
  });
});

describe('normalise: full', () => {
  const full = { normalise: 'full', model: 'org/theirs' } as const;
  const whole = { ...media, kwargs_data: { image: ['b'] }, mm_metadata: { image: ['m'] } };
  it.each([
    {
      name: 'features missing',
      answer: { token_ids: [1] },
      wanted: { token_ids: [1], features: null },
    },
    { name: 'features null', answer: object, wanted: { ...object, model: 'mine' } },
    {
      name: 'features without items',
      answer: { ...object, features: { mm_hashes: { image: [] }, mm_placeholders: {} } },
      wanted: { ...object, model: 'mine' },
    },
    {
      name: 'kwargs_data missing',
      answer: { ...object, features: media },
      wanted: { ...object, model: 'mine', features: { ...media, kwargs_data: null } },
    },
    {
      name: 'mm_metadata missing',
      answer: { ...object, features: { ...media, kwargs_data: { image: ['b'] } } },
      wanted: {
        ...object,
        model: 'mine',
        features: { ...media, kwargs_data: { image: ['b'] }, mm_metadata: { image: [null] } },
      },
    },
    {
      name: 'nothing',
      answer: { ...object, features: whole },
      wanted: { ...object, model: 'mine', features: whole },
    },
  ])('repairs $name', async ({ answer, wanted }) => {
    const proxy = await proxyTo([{ json: answer }], full);
    expect((await ask(proxy)).json).toEqual(
      'model' in wanted ? wanted : { ...wanted, model: 'mine' },
    );
  });

  it('takes the tensors away that an old server sends in the cheap mode', async () => {
    const features = { ...media, kwargs_data: { image: ['b'] } };
    const proxy = await proxyTo([{ json: { ...object, features } }], full);
    const { json } = await ask(proxy, { body: { ...hi, mm_payload: 'none' } });
    expect(json).toMatchObject({ features: { ...media, kwargs_data: null } });
  });

  it('makes a list of an object on the list route, and keeps lists', async () => {
    const proxy = await proxyTo([{ json: object }], full);
    const wanted = { ...object, model: 'mine' };
    expect((await ask(proxy, { path: COMPLETIONS })).json).toEqual([wanted]);
    servers[0]?.play({ json: [object, object] });
    expect((await ask(proxy, { path: COMPLETIONS })).json).toEqual([wanted, wanted]);
  });

  it.each([
    {
      name: 'lists of unequal length',
      answer: { ...object, features: { ...media, kwargs_data: { image: [] } } },
    },
    {
      name: 'fewer placeholders than hashes',
      answer: { ...object, features: { ...media, mm_placeholders: { image: [] } } },
    },
    { name: 'a negative id', answer: { ...object, token_ids: [1, -1] } },
    { name: 'ids that are no numbers', answer: { ...object, token_ids: ['1'] } },
    { name: 'no ids', answer: { ...object, token_ids: [] } },
    { name: 'a conversation and prompts', answer: [[{ role: 'user' }], [{}]] },
  ])('refuses $name', async ({ answer }) => {
    const proxy = await proxyTo([{ json: answer }], full);
    expect(await refusal(ask(proxy))).toMatchObject({ status: 502 });
  });
});

describe('a failing upstream', () => {
  const failures: { name: string; answer: Answer; status: number }[] = [
    { name: '502', answer: { status: 502 }, status: 502 },
    { name: '503', answer: { status: 503 }, status: 502 },
    { name: '504', answer: { status: 504 }, status: 502 },
    { name: 'a reset before the answer', answer: { beforeHeaders: 'reset' }, status: 502 },
    { name: 'silence', answer: { beforeHeaders: 'hang' }, status: 504 },
  ];

  it.each(failures)('with $name has another one asked, once', async ({ answer }) => {
    const proxy = await proxyTo([answer, { json: object }], {}, { headersMs: 300 });
    expect((await ask(proxy)).header('x-render-upstream')).toBe('1');
    expect(events).toEqual(['0 failed', 'retried', '1 served']);
  });

  it.each(failures)('with $name is told when there is no other', async ({ answer, status }) => {
    const proxy = await proxyTo([answer], {}, { headersMs: 300 });
    expect(await refusal(ask(proxy))).toMatchObject({ status });
  });

  it('with 500 has nobody else asked: the request may be the cause', async () => {
    const proxy = await proxyTo([{ status: 500, text: 'secret' }, { json: object }]);
    const { status, message } = await refusal(ask(proxy));
    expect(status).toBe(502);
    expect(message).not.toContain('secret');
    expect(renders(servers[1] as ScriptedServer)).toHaveLength(0);
  });

  it('that refuses is believed, word for word', async () => {
    const error = { error: { message: 'm', type: 'BadRequestError', param: null, code: 400 } };
    const proxy = await proxyTo([{ status: 400, json: error }, { json: object }]);
    const sink = await ask(proxy);
    expect([sink.status, sink.json]).toEqual([400, error]);
    expect(events).toEqual(['0 refused']);
  });

  it('is left alone after five failures in a row, and asked again later', async () => {
    const proxy = await proxyTo([{ status: 503 }, { json: object }], {}, { ejectMs: 200 });
    for (let i = 0; i < 5; i++) await ask(proxy);
    expect(events.filter((event) => event === '0 ejected')).toHaveLength(1);
    const asked = renders(servers[0] as ScriptedServer).length;
    for (let i = 0; i < 5; i++) await ask(proxy);
    expect(renders(servers[0] as ScriptedServer)).toHaveLength(asked);
    await sleep(250);
    const [first] = servers;
    first?.play({ json: object });
    expect((await ask(proxy)).header('x-render-upstream')).toBe('0');
  });

  it('stays in when it is the only one', async () => {
    const proxy = await proxyTo([{ status: 500 }]);
    for (let i = 0; i < 7; i++) await refusal(ask(proxy));
    expect(renders(servers[0] as ScriptedServer)).toHaveLength(7);
  });

  it('that is not there gets no requests, and without any there is 503', async () => {
    const proxy = await proxyTo([{ json: object }, { json: object }]);
    await servers[0]?.close();
    await group.upstreams[0]?.probe();
    expect((await ask(proxy)).header('x-render-upstream')).toBe('1');
    expect(group.isHealthy).toBe(true);
    await servers[1]?.close();
    await group.upstreams[1]?.probe();
    expect(group.isHealthy).toBe(false);
    expect(await refusal(ask(proxy))).toMatchObject({ status: 503 });
  });
});

describe('a probe that renders', () => {
  it.each([
    { name: 'an answer', answer: { json: [object] }, isHealthy: true },
    { name: 'a refusal', answer: { status: 400 }, isHealthy: true },
    { name: 'no such route', answer: { status: 404 }, isHealthy: true },
    { name: 'a fault', answer: { status: 500 }, isHealthy: false },
    { name: 'silence', answer: { beforeHeaders: 'hang' as const }, isHealthy: false },
  ])('finds out from $name', async ({ answer, isHealthy }) => {
    await proxyTo([answer], {}, { deepProbeMs: 200 });
    expect(await group.upstreams[0]?.probe(true)).toBe(isHealthy);
    expect(group.isHealthy).toBe(isHealthy);
    expect(renders(servers[0] as ScriptedServer)[0]?.json()).toEqual({ prompt: 'a' });
  });
});

describe('routes', () => {
  const missing = { status: 404, json: { detail: 'Not Found' } };

  it('that one upstream lacks are asked of another, from then on directly', async () => {
    const proxy = await proxyTo([missing, { json: object }]);
    await ask(proxy);
    await ask(proxy);
    expect(renders(servers[0] as ScriptedServer)).toHaveLength(1);
    expect(events).toEqual(['0 refused', 'retried', '1 served', '1 served']);
  });

  it('that none has are 501 with what to start', async () => {
    const proxy = await proxyTo([missing]);
    for (let i = 0; i < 2; i++) {
      expect(await refusal(ask(proxy))).toMatchObject({
        status: 501,
        message: expect.stringMatching(/--enable-scale-out/),
      });
    }
    expect(renders(servers[0] as ScriptedServer)).toHaveLength(1);
  });

  it('are known beforehand where an upstream lists them', async () => {
    await renderServer({ json: object }, [COMPLETIONS]);
    await renderServer({ json: object }, [CHAT]);
    const proxy = await proxyFor(servers);
    expect((await ask(proxy)).header('x-render-upstream')).toBe('1');
    expect(renders(servers[0] as ScriptedServer)).toHaveLength(0);
  });

  it('are not taken for missing when the model is', async () => {
    const error = { error: { message: 'm', type: 'NotFoundError', param: 'model', code: 404 } };
    const proxy = await proxyTo([{ status: 404, json: error }]);
    expect((await ask(proxy)).status).toBe(404);
    expect((await ask(proxy)).status).toBe(404);
  });
});

describe('the choice', () => {
  it('falls on the upstream with less to do; images weigh more than texts', async () => {
    const held = Promise.withResolvers<undefined>();
    const answer = { json: object, delay: held.promise };
    const proxy = await proxyTo([answer, answer]);
    const image = {
      ...hi,
      messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url: '' } }] }],
    };
    const asked = [ask(proxy, { body: image })];
    await servers[0]?.arrived(servers[0].calls.length);
    for (let i = 0; i < 4; i++) asked.push(ask(proxy));
    await servers[1]?.arrived(servers[1].calls.length + 3);
    expect(group.upstreams.map(({ outstanding }) => outstanding)).toEqual([8, 4]);
    held.resolve(undefined);
    await Promise.all(asked);
    expect(group.upstreams.map(({ outstanding }) => outstanding)).toEqual([0, 0]);
  });
});

describe('a caller that leaves', () => {
  it('ends the call of the upstream', async () => {
    const proxy = await proxyTo([{ beforeHeaders: 'hang' }, { json: object }]);
    const caller = new AbortController();
    const answered = ask(proxy, { signal: caller.signal });
    const call = await servers[0]?.received(servers[0].calls.length);
    caller.abort();
    await expect(answered).rejects.toThrow();
    await call?.ended;
    expect(call?.aborted).toBe(true);
    expect(events).toEqual(['0 cancelled']);
  });
});
