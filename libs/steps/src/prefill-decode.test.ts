import { type Api } from '@llm-d/gateway';
import { rootOf } from '@llm-d/json-document';
import { ClientGoneError, TokenIds } from '@llm-d/pipeline';
import { MemoryLog, MemorySink, requestContext } from '@llm-d/pipeline/testing';
import { type Answer, type RecordedCall } from '@llm-d/testing';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { prefillDecode } from './prefill-decode.ts';
import { answerFile, Rig } from './testing.ts';

type Role = 'reserve' | 'prefill' | 'decode';

const sglang = { kv_connector: 'kv-sglang' };
const reservation: Answer = {
  status: 204,
  headers: { 'x-llm-d-reserved-host-port': '10.0.3.7:8000' },
};

let rig: Rig;
let sink: MemorySink;
let log: MemoryLog;
let client: AbortController;
beforeEach(async () => {
  rig = await Rig.open();
  [sink, log, client] = [new MemorySink(), new MemoryLog(), new AbortController()];
});
afterEach(() => rig.close());

const roleOf = ({ headers }: RecordedCall): Role =>
  headers['prefer'] ? 'reserve' : (headers['epp-profile']?.[0] as Role);
const calls = (role: Role): RecordedCall[] =>
  rig.gateway.calls.filter((call) => roleOf(call) === role);
const bodyOf = (role: Role): string => calls(role).at(-1)?.body.toString() ?? '';

/** Answers by role; what is not given goes well. */
function play(answers: Partial<Record<Role, Answer>>): void {
  const standard = {
    reserve: reservation,
    prefill: { json: {} },
    decode: answerFile('decode.chat.json'),
  };
  rig.gateway.play((call) => ({ ...standard, ...answers })[roleOf(call)]);
}

/** Resolves when a leg of this role has arrived. */
async function arrival(role: Role): Promise<RecordedCall> {
  for (let i = 0; ; i++) {
    const call = await rig.gateway.arrived(i);
    if (roleOf(call) === role) return call;
  }
}

const context = (body = '{"messages":[]}', api: Api = 'chat', headers: string[] = []) =>
  requestContext({ api, body, headers, sink, log, signal: client.signal });

type Overrides = Parameters<Rig['step']>[2];
const run = (ctx = context(), params = {}, overrides: Overrides = {}) =>
  rig.step(prefillDecode, { ...sglang, ...params }, overrides)(ctx);

/** The room of a body, as its text. */
const roomIn = (body: string): string => /"bootstrap_room":(\d+)/.exec(body)?.[1] ?? '';

describe('prefill-decode', () => {
  it('has both legs in flight together: each answers only when the other has come', async () => {
    play({
      prefill: { delay: arrival('decode'), json: {} },
      decode: { delay: arrival('prefill'), ...answerFile('decode.chat.sse') },
    });
    expect(await run()).toBe('served');
    expect(rig.gateway.calls.map(roleOf).toSorted()).toEqual(['decode', 'prefill', 'reserve']);
    expect(sink).toMatchObject({ status: 200, ended: 'whole' });
  });

  it('gives reserve and prefill ids of their own, and pins prefill alone', async () => {
    play({});
    const removed = ['Prefer', 'if-available', 'X-Data-Parallel-Rank', '3'];
    const pins = ['x-prefill-pin-host-port', 'evil:1', 'x-llm-d-pin-host-port', 'evil:2'];
    await run(context('{}', 'chat', [...removed, ...pins, 'Authorization', 'Bearer a']));
    const seen = (role: Role) => {
      const headers = calls(role)[0]?.headers ?? {};
      const names = ['x-request-id', 'prefer', 'x-prefill-pin-host-port', 'epp-profile'];
      const others = ['x-llm-d-pin-host-port', 'x-data-parallel-rank', 'authorization'];
      return [...names, ...others].map((name) => headers[name]?.join());
    };
    const [pin, token] = ['10.0.3.7:8000', 'Bearer a'];
    const none = undefined;
    expect(seen('reserve')).toEqual([
      'test-1-reserve',
      'reserve-endpoint',
      none,
      'prefill',
      none,
      none,
      token,
    ]);
    expect(seen('prefill')).toEqual(['test-1-prefill', none, pin, 'prefill', none, none, token]);
    expect(seen('decode')).toEqual(['test-1', none, none, 'decode', none, none, token]);
  });

  it('pins by the header of the wire in use', async () => {
    play({});
    const { wire } = rig.dependencies();
    await run(context(), {}, { wire: { ...wire, pinHeader: 'x-llm-d-pin-host-port' } });
    const headers = calls('prefill')[0]?.headers;
    expect(headers?.['x-llm-d-pin-host-port']).toEqual(['10.0.3.7:8000']);
    expect(headers?.['x-prefill-pin-host-port']).toBeUndefined();
  });

  it('carries headers of the reservation to both legs', async () => {
    play({ reserve: { ...reservation, headers: { ...reservation.headers, 'x-r': '7' } } });
    await run(context(), {}, { forwardResponseHeaders: ['x-r'] });
    for (const role of ['prefill', 'decode'] as const) {
      expect(calls(role)[0]?.headers['x-r']).toEqual(['7']);
    }
  });

  it('sends both legs of chat to one room, and leaves what the client asked to decode', async () => {
    play({});
    const asked =
      '{"model":"m","max_tokens":64,"seed":9007199254740993,"routed_dp_rank":3,"data_parallel_rank":1,"disagg_prefill_dp_rank":2}';
    await run(context(asked));
    const room = roomIn(bodyOf('prefill'));
    const members = `"bootstrap_host":"10.0.3.7","bootstrap_port":8998,"bootstrap_room":${room}`;
    expect(bodyOf('prefill')).toBe(
      `{"model":"m","max_tokens":1,"seed":9007199254740993,"max_completion_tokens":1,"stream":false,${members}}`,
    );
    expect(bodyOf('decode')).toBe(
      `{"model":"m","max_tokens":64,"seed":9007199254740993,${members}}`,
    );
    expect(bodyOf('reserve')).toContain('"max_tokens":1,');
    expect(bodyOf('reserve')).not.toMatch(/bootstrap|kv_transfer_params/);
  });

  it.each<{
    api: Api;
    params: object;
    body: string;
    prefill: string;
    decode: string;
    path: string;
  }>([
    {
      api: 'completions',
      params: {},
      body: '{"model":"m","prompt":"x","max_tokens":9}',
      prefill: '{"request_id":"test-1","model":"m","prompt":[1,2],"max_tokens":1,"stream":false,B}',
      decode: '{"model":"m","prompt":[1,2],"max_tokens":9,B}',
      path: '/v1/completions',
    },
    {
      api: 'chat',
      params: { use_openai_format: false },
      body: '{"model":"m","messages":[]}',
      prefill:
        '{"request_id":"test-1","model":"m","token_ids":[1,2],"sampling_params":{"max_tokens":1},"stream":false,B}',
      decode: '{"model":"m","messages":[],B}',
      path: '/inference/v1/generate',
    },
    {
      api: 'generate',
      params: {},
      body: '{"model":"m","token_ids":[1,2],"sampling_params":{"max_tokens":9}}',
      prefill:
        '{"request_id":"test-1","model":"m","token_ids":[1,2],"sampling_params":{"max_tokens":1},"stream":false,B}',
      decode: '{"model":"m","token_ids":[1,2],"sampling_params":{"max_tokens":9},B}',
      path: '/inference/v1/generate',
    },
  ])('writes $api with $params', async ({ api, params, body, prefill, decode, path }) => {
    play({});
    const ctx = context(body, api);
    ctx.tokenIds = TokenIds.read(rootOf(Buffer.from('[1,2]')));
    await run(ctx, params, { bootstrapPort: 9100 });
    const members = `"bootstrap_host":"10.0.3.7","bootstrap_port":9100,"bootstrap_room":${roomIn(bodyOf('prefill'))}`;
    expect(bodyOf('prefill')).toBe(prefill.replace('B', members));
    expect(bodyOf('reserve')).toBe(prefill.replace(',B', ''));
    expect(bodyOf('decode')).toBe(decode.replace('B', members));
    expect([calls('reserve')[0]?.path, calls('prefill')[0]?.path]).toEqual([path, path]);
    expect(calls('decode')[0]?.path).toBe(ctx.path);
  });

  it('takes a new room for every request', async () => {
    play({});
    await run();
    await run(requestContext({ sink: new MemorySink() }));
    const rooms = calls('decode').map(({ body }) => roomIn(body.toString()));
    expect(new Set(rooms).size).toBe(2);
  });

  it('gives prefill what encode has answered', async () => {
    play({});
    const ctx = context();
    ctx.ecTransferParams = [rootOf(Buffer.from('{"h":{"n":9007199254740993}}'))];
    await run(ctx, { ec_connector: 'ec-nixl' });
    expect(bodyOf('prefill')).toContain('"ec_transfer_params":{"h":{"n":9007199254740993}}');
    expect(bodyOf('decode')).not.toContain('ec_transfer_params');
  });
});

describe('a reservation', () => {
  it.each<{ name: string; answer: Answer; error: object }>([
    {
      name: 'a 500',
      answer: { status: 500, text: 'SECRET' },
      error: { status: 502, message: 'prefill-decode[reserve]: upstream returned HTTP 500' },
    },
    {
      name: 'a 503',
      answer: { status: 503, headers: { 'retry-after': '3' } },
      error: { status: 503, headers: ['retry-after', '3'] },
    },
    { name: 'a 429', answer: { status: 429 }, error: { status: 429 } },
    { name: 'a 202', answer: { ...reservation, status: 202 }, error: { status: 502 } },
    {
      name: 'without the header',
      answer: { status: 204 },
      error: {
        code: 'UPSTREAM_ANSWER_INVALID',
        message: 'prefill-decode[reserve]: the reserved endpoint is not host:port',
      },
    },
    {
      name: 'without a port',
      answer: { headers: { 'x-llm-d-reserved-host-port': '10.0.3.7' } },
      error: { code: 'UPSTREAM_ANSWER_INVALID', status: 502 },
    },
    { name: 'a reset', answer: { beforeHeaders: 'reset' }, error: { fault: 'reset' } },
  ])('that is $name ends the request before any leg', async ({ answer, error }) => {
    play({ reserve: answer });
    await expect(run()).rejects.toMatchObject(error);
    expect(rig.gateway.calls).toHaveLength(1);
    expect(sink.isStarted).toBe(false);
  });

  it.each([200, 204])('may be a %i', async (status) => {
    play({ reserve: { ...reservation, status } });
    expect(await run()).toBe('served');
  });

  it('is not asked for when two encode answers contradict each other', async () => {
    const ctx = context();
    ctx.ecTransferParams = ['{"h":{"a":1}}', '{"h":{"a":2}}'].map((text) =>
      rootOf(Buffer.from(text)),
    );
    await expect(run(ctx, { ec_connector: 'ec-nixl' })).rejects.toMatchObject({ status: 502 });
    expect(rig.gateway.calls).toEqual([]);
  });
});

describe('a leg that fails', () => {
  const event = 'data: {"choices":[]}\n\n';
  const stream = (end: 'hang' | 'close', wait: Promise<unknown>): Answer => ({
    headers: { 'content-type': 'text/event-stream' },
    chunks: [event, { wait }, { end }],
  });
  const never = new Promise<never>(() => {});

  it.each<{ name: string; prefill: Answer; error: object }>([
    {
      name: 'a 503',
      prefill: { status: 503, text: 'SECRET' },
      error: { status: 503, message: 'prefill-decode[prefill]: upstream returned HTTP 503' },
    },
    { name: 'a 500', prefill: { status: 500 }, error: { status: 502 } },
    { name: 'a reset', prefill: { beforeHeaders: 'reset' }, error: { fault: 'reset' } },
  ])('prefill with $name before decode has answered: decides, and decode is cut', async (row) => {
    play({
      prefill: { delay: arrival('decode'), ...row.prefill },
      decode: { beforeHeaders: 'hang' },
    });
    await expect(run()).rejects.toMatchObject(row.error);
    const [decode] = calls('decode');
    await decode?.ended;
    expect(decode?.aborted).toBe(true);
    expect(sink.isStarted).toBe(false);
  });

  it('prefill while decode streams: one error event, then a cut', async () => {
    const started = Promise.withResolvers<void>();
    play({
      // A 503 without a body would be the gateway's own.
      prefill: { delay: started.promise, status: 503, text: 'worker' },
      decode: stream('hang', never),
    });
    const write = sink.write.bind(sink);
    sink.write = (chunk) => {
      started.resolve();
      return write(chunk);
    };
    await expect(run()).rejects.toMatchObject({ status: 503, code: 'UPSTREAM_ERROR' });
    const [decode] = calls('decode');
    await decode?.ended;
    expect(decode?.aborted).toBe(true);
    expect(sink.status).toBe(200);
    const [first, second, ...rest] = sink.text.split('\n\n').filter(Boolean);
    expect(`${first}\n\n`).toBe(event);
    expect(JSON.parse(second?.slice('data: '.length) ?? '')).toMatchObject({
      error: {
        code: 'UPSTREAM_ERROR',
        message: expect.stringContaining('prefill-decode[prefill]'),
      },
    });
    expect(rest).toEqual([]);
  });

  it('prefill while decode sends a plain answer: that was kept back, so that the error is told', async () => {
    const headers = { 'content-type': 'application/json' };
    play({
      prefill: { delay: arrival('decode'), status: 500, text: 'worker' },
      decode: { headers, chunks: ['{', { wait: never }] },
    });
    await expect(run()).rejects.toMatchObject({ code: 'UPSTREAM_ERROR', upstreamStatus: 500 });
    const [decode] = calls('decode');
    await decode?.ended;
    expect(decode?.aborted).toBe(true);
    expect(sink).toMatchObject({ isStarted: false, text: '', ended: 'no' });
  });

  it('prefill after decode has answered in full: is logged alone', async () => {
    const ended = Promise.withResolvers<void>();
    play({ prefill: { delay: ended.promise, status: 503 } });
    const end = sink.end.bind(sink);
    sink.end = () => {
      end();
      ended.resolve();
    };
    expect(await run()).toBe('served');
    expect(sink).toMatchObject({ status: 200, ended: 'whole' });
    expect(log.messages('warn')).toEqual(['prefill failed after decode had answered']);
  });

  it('decode with an error: the client has it, and prefill is cut', async () => {
    play({
      prefill: { beforeHeaders: 'hang' },
      decode: { delay: arrival('prefill'), status: 500, json: { error: 'from decode' } },
    });
    await expect(run()).rejects.toMatchObject({ code: 'RESPONSE_STARTED', status: 500 });
    expect(sink).toMatchObject({ status: 500, text: '{"error":"from decode"}', ended: 'whole' });
    const [prefill] = calls('prefill');
    await prefill?.ended;
    expect(prefill?.aborted).toBe(true);
  });

  it('decode without an answer: prefill is cut', async () => {
    play({
      prefill: { beforeHeaders: 'hang' },
      decode: { delay: arrival('prefill'), beforeHeaders: 'reset' },
    });
    await expect(run()).rejects.toMatchObject({ fault: 'reset' });
    const [prefill] = calls('prefill');
    await prefill?.ended;
    expect(prefill?.aborted).toBe(true);
  });

  it('decode in the middle of a stream: prefill is cut', async () => {
    play({ prefill: { beforeHeaders: 'hang' }, decode: stream('close', arrival('prefill')) });
    await expect(run()).rejects.toMatchObject({ code: 'RESPONSE_STARTED' });
    const [prefill] = calls('prefill');
    await prefill?.ended;
    expect(prefill?.aborted).toBe(true);
  });

  it.each<{ when: string; answers: Partial<Record<Role, Answer>>; open: Role[] }>([
    {
      when: 'during the reservation',
      answers: { reserve: { beforeHeaders: 'hang' } },
      open: ['reserve'],
    },
    {
      when: 'before any leg answers',
      answers: { prefill: { beforeHeaders: 'hang' }, decode: { beforeHeaders: 'hang' } },
      open: ['prefill', 'decode'],
    },
    {
      when: 'while decode streams',
      answers: { prefill: { beforeHeaders: 'hang' }, decode: stream('hang', never) },
      open: ['prefill', 'decode'],
    },
  ])('because the client left $when: all that is open is cut', async ({ answers, open }) => {
    play(answers);
    const running = run();
    const legs = await Promise.all(open.map(arrival));
    client.abort(new ClientGoneError());
    await expect(running).rejects.toMatchObject({ code: 'CLIENT_GONE' });
    await Promise.all(legs.map(({ ended }) => ended));
    expect(legs.map(({ aborted }) => aborted)).toEqual(legs.map(() => true));
    expect(rig.gateway.calls).toHaveLength(open.includes('reserve') ? 1 : 3);
  });
});

describe('what cannot be divided', () => {
  it.each([
    { body: '{"n":2}', param: 'n', overrides: {} },
    { body: '{"prompt_logprobs":0}', param: 'prompt_logprobs', overrides: {} },
    {
      body: '{"prompt_logprobs":1}',
      param: 'prompt_logprobs',
      overrides: { kvMultiSequence: 'transfer' as const },
    },
  ])('is refused: $body', async ({ body, param, overrides }) => {
    await expect(run(context(body), {}, overrides)).rejects.toMatchObject({ status: 400, param });
    expect(rig.gateway.calls).toEqual([]);
  });

  it('but for sequences where they may be transferred: both legs have them', async () => {
    play({});
    await run(context('{"n":2}'), {}, { kvMultiSequence: 'transfer' });
    expect(rig.bodies('prefill').at(-1)).toMatchObject({ n: 2, max_tokens: 1 });
    expect(rig.bodies('decode').at(-1)).toMatchObject({ n: 2 });
  });
});

describe('the parameters of prefill-decode', () => {
  const advice =
    'calls decode after prefill: replace the step prefill-decode by prefill and decode';
  it.each([
    { params: {}, message: `kv_connector: kv-shared-storage ${advice}` },
    { params: { kv_connector: 'kv-nixl' }, message: `kv_connector: kv-nixl ${advice}` },
    { params: { kv_connector: 'kv-none' }, message: `kv_connector: kv-none ${advice}` },
    { params: { kv_connector: 'x' }, message: 'kv_connector: expected one of kv-nixl,' },
    { params: { ...sglang, ec_connector: 'x' }, message: 'ec_connector: expected one of ec-nixl,' },
    {
      params: { ...sglang, use_openai_format: 'yes' },
      message: 'use_openai_format: expected true or false, got "yes"',
    },
  ])('end the start when they are $params', ({ params, message }) => {
    expect(() => rig.step(prefillDecode, params)).toThrow(`prefill-decode: ${message}`);
  });
});
