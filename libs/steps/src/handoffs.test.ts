import { type Api } from '@llm-d/gateway';
import { ClientGoneError, defineStep, type Handoff, type Pipeline } from '@llm-d/pipeline';
import { MemoryLog, MemorySink, requestContext } from '@llm-d/pipeline/testing';
import { type Answer, expectGolden, type RecordedCall } from '@llm-d/testing';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { z } from 'zod';
import { answerFile, Rig, testdata } from './testing.ts';

let rig: Rig;
let log: MemoryLog;
let client: AbortController;
let pipeline: Pipeline;
beforeEach(async () => {
  rig = await Rig.open();
  [log, client] = [new MemoryLog(), new AbortController()];
});
afterEach(() => rig.close());

const nixl = { kv_connector: 'kv-nixl', ec_connector: 'ec-nixl' };

/** The last moment before decode: a test does here what happens to a request between its legs. */
const between = (act: () => void) =>
  defineStep({
    type: 'between',
    params: z.strictObject({}),
    create: () => () => {
      act();
      return Promise.resolve('continue' as const);
    },
  });

interface Run {
  readonly api?: Api;
  /** Below `testdata/requests/`, or the body itself. */
  readonly request?: string;
  readonly params?: Record<string, string>;
  readonly beforeDecode?: () => void;
  readonly beforePrefill?: () => void;
  readonly overrides?: Parameters<Rig['pipeline']>[1];
}

const leave = (): void => client.abort(new ClientGoneError());

/** Runs a request to its end, what it leaves behind included; gives what it failed with. */
async function run({ api = 'chat', request = 'chat.text', ...options }: Run): Promise<unknown> {
  const { params = nixl, beforeDecode = () => {}, beforePrefill = () => {} } = options;
  const hasFile = !request.startsWith('{');
  if (api !== 'generate') {
    rig.renderService.play(answerFile(`render.${hasFile ? request : 'chat.text'}.json`));
  }
  const { kv_connector: kv } = params;
  pipeline = rig.pipeline(
    [
      { type: 'replace-media-urls' },
      ...(api === 'generate' ? [] : [{ type: 'render' }]),
      { type: 'encode', params: { ...params, max_parallel: 1 } },
      { type: 'before-prefill' },
      { type: 'prefill', params },
      { type: 'between' },
      { type: 'decode', params: kv ? { kv_connector: kv } : {} },
    ],
    {
      definitions: [between(beforeDecode), { ...between(beforePrefill), type: 'before-prefill' }],
      ...options.overrides,
    },
  );
  const body = hasFile ? testdata(`requests/${request}.json`) : request;
  const ctx = requestContext({ api, body, log, signal: client.signal, sink: new MemorySink() });
  handoffs = () => ctx.handoffs;
  const failure: unknown = await pipeline.run(ctx).then(
    () => undefined,
    (error: unknown) => error,
  );
  await pipeline.idle();
  return failure;
}
let handoffs: () => readonly Handoff[] | undefined;

const isRelease = ({ body }: RecordedCall): boolean =>
  /"max_(?:output_)?tokens": ?1\b/.test(body.toString());

/** Plays a gateway: `decode` answers the client's leg, `release` the one that gives blocks back. */
function play(answers: { encode?: Answer[]; prefill?: Answer; decode?: Answer; release?: Answer }) {
  const encodes = [
    ...(answers.encode ?? [answerFile('encode.0.json'), answerFile('encode.1.json')]),
  ];
  rig.gateway.play((call) => {
    switch (call.headers['epp-profile']?.[0]) {
      case 'encode':
        return encodes.shift() ?? { status: 500 };
      case 'prefill':
        return answers.prefill ?? answerFile('prefill.kv-nixl.json');
      default: {
        const usual = answerFile('decode.chat.json');
        return (isRelease(call) ? answers.release : answers.decode) ?? usual;
      }
    }
  });
}

const counted = (kind: 'kv' | 'ec', connector: string) => rig.handoffs.toJSON()[kind][connector];
const one = (outcome: 'used' | 'released' | 'expired', count = 1) => ({
  offered: count,
  used: 0,
  released: 0,
  expired: 0,
  [outcome]: count,
});

const error = (status: number, type = 'application/json'): Answer => ({
  status,
  headers: { 'content-type': type },
  text: '{"error":{}}',
});

describe('a KV hand-off of kv-nixl', () => {
  it('is used by the decode leg', async () => {
    play({});
    expect(await run({})).toBeUndefined();
    expect(counted('kv', 'kv-nixl')).toEqual(one('used'));
    expect(rig.legs('decode')).toHaveLength(1);
  });

  it.each([
    {
      name: 'refuses the body: the pod tells prefill',
      decode: error(400),
      outcome: 'released',
      legs: 1,
    },
    { name: 'has no room', decode: error(503, 'text/plain'), outcome: 'expired', legs: 1 },
    { name: 'does not know the model', decode: error(404), outcome: 'expired', legs: 1 },
    { name: 'cannot load the blocks', decode: error(500), outcome: 'used', legs: 1 },
    {
      name: 'is cut before its answer',
      decode: { beforeHeaders: 'reset' },
      outcome: 'used',
      legs: 1,
    },
    { name: 'breaks off', decode: { chunks: ['{', { end: 'reset' }] }, outcome: 'used', legs: 1 },
  ] as const)('is never sent twice where decode $name', async ({ decode, outcome, legs }) => {
    play({ decode });
    expect(await run({})).toBeInstanceOf(Error);
    expect(counted('kv', 'kv-nixl')).toEqual(one(outcome));
    expect(rig.legs('decode')).toHaveLength(legs);
  });

  it('is given back where a pod refuses a generate body, which tells nobody', async () => {
    play({ decode: error(400) });
    await run({
      api: 'generate',
      request: '{"token_ids":[1],"sampling_params":{"temperature":-3}}',
    });
    expect(counted('kv', 'kv-nixl')).toEqual(one('released'));
    expect(rig.bodies('decode')).toMatchObject([
      { sampling_params: { temperature: -3 } },
      { sampling_params: { max_tokens: 1 }, kv_transfer_params: { do_remote_prefill: true } },
    ]);
  });

  it.each([
    { api: 'chat', request: 'chat.one-image' },
    { api: 'completions', request: 'completions.text' },
    { api: 'generate', request: 'generate.text' },
    { api: 'responses', request: 'responses.text' },
  ] as const)(
    'is given back by one token of $api when the client leaves before decode',
    async ({ api, request }) => {
      play({ release: answerFile(`decode.${api}.json`) });
      expect(await run({ api, request, beforeDecode: leave })).toBeInstanceOf(ClientGoneError);
      expect(counted('kv', 'kv-nixl')).toEqual(one('released'));
      const [leg, second] = rig.legs('decode');
      expect(second).toBeUndefined();
      expect(leg?.headers['x-request-id']).toEqual(['test-1']);
      expectGolden(import.meta.dirname, `releases/${request}.json`, leg?.body);
    },
  );

  it('is given back for one sequence where the client asked for several', async () => {
    play({});
    const request = '{"model":"m","messages":[],"n":3,"best_of":4,"stream":true}';
    const overrides = { kvMultiSequence: 'transfer' } as const;
    await run({ request, beforeDecode: leave, overrides });
    expect(rig.bodies('decode')).toMatchObject([{ n: 1, stream: false }]);
    expect(rig.bodies('decode')[0]).not.toHaveProperty('best_of');
  });

  it('is not known when the client leaves during prefill: the leg ends and nothing is counted', async () => {
    play({ prefill: { beforeHeaders: 'hang' } });
    const left = rig.gateway.arrived(0).then((call) => {
      leave();
      return call.ended.then(() => call);
    });
    expect(await run({})).toBeInstanceOf(ClientGoneError);
    expect((await left).aborted).toBe(true);
    expect(rig.handoffs.toJSON().kv).toEqual({});
    expect(rig.legs('decode')).toEqual([]);
  });

  it('is used when the client leaves during decode: the pod frees it', async () => {
    play({ decode: { beforeHeaders: 'hang' } });
    const left = rig.gateway.received(1).then(leave);
    expect(await run({})).toBeInstanceOf(ClientGoneError);
    await left;
    expect(counted('kv', 'kv-nixl')).toEqual(one('used'));
    expect(rig.legs('decode')).toHaveLength(1);
  });

  it('is left to the lease where the policy says so', async () => {
    play({});
    await run({ beforeDecode: leave, overrides: { kvRelease: 'lease' } });
    expect(counted('kv', 'kv-nixl')).toEqual(one('expired'));
    expect(rig.legs('decode')).toEqual([]);
  });

  it.each([
    { name: 'is refused', release: error(503) },
    { name: 'is cut', release: { beforeHeaders: 'reset' } },
  ] as const)('waits for the lease when the leg that gives it back $name', async ({ release }) => {
    play({ release });
    await run({ beforeDecode: leave });
    expect(counted('kv', 'kv-nixl')).toEqual(one('expired'));
    expect(rig.legs('decode')).toHaveLength(1);
    expect(log.messages('info')).toEqual([
      'a KV hand-off could not be released, its blocks wait for the lease',
    ]);
    expect(log.messages('warn')).toEqual([]);
  });

  it('counts as given back when the pod refuses that leg: it tells prefill too', async () => {
    play({ release: error(400) });
    await run({ beforeDecode: leave });
    expect(counted('kv', 'kv-nixl')).toEqual(one('released'));
  });

  it('was never sent where there is no connection', async () => {
    play({});
    const closed: Promise<void>[] = [];
    await run({ beforeDecode: () => closed.push(rig.gateway.close()) });
    await Promise.all(closed);
    expect(counted('kv', 'kv-nixl')).toEqual(one('expired'));
  });

  it('expires at a pipeline that closes, and is not waited for any longer', async () => {
    play({ release: { beforeHeaders: 'hang' } });
    const releasing = rig.gateway.received(1);
    const ended = run({ beforeDecode: leave });
    await releasing;
    expect(handoffs()?.map(({ state }) => state)).toEqual(['releasing']);
    await pipeline.close();
    await ended;
    expect(counted('kv', 'kv-nixl')).toEqual(one('expired'));
  });

  it('expires past its lease, and the one of the second prefill is used', async () => {
    play({});
    await run({ overrides: { kvLeaseMs: -1 } });
    expect(counted('kv', 'kv-nixl')).toEqual({ offered: 2, used: 1, released: 0, expired: 1 });
    expect(rig.legs('decode')).toHaveLength(1);
  });

  it('is not given back past its lease: the blocks may hold another prompt', async () => {
    play({});
    await run({ beforeDecode: leave, overrides: { kvLeaseMs: -1 } });
    expect(counted('kv', 'kv-nixl')).toEqual(one('expired'));
    expect(rig.legs('decode')).toEqual([]);
  });

  it('that lacks a field is left to the pod: no decode pod could fetch it', async () => {
    play({ prefill: { json: { kv_transfer_params: { remote_block_ids: [[1]] } } } });
    await run({});
    expect(counted('kv', 'kv-nixl')).toEqual(one('expired'));
    expect(rig.bodies('decode')).toHaveLength(1);
    expect(rig.bodies('decode')[0]).not.toHaveProperty('kv_transfer_params');
  });

  it('does not exist where prefill answered none', async () => {
    play({ prefill: { json: {} } });
    await run({});
    expect(handoffs()).toBeUndefined();
  });
});

describe('a KV hand-off of kv-shared-storage', () => {
  const params = { kv_connector: 'kv-shared-storage' };

  it.each([{ decode: answerFile('decode.chat.json') }, { decode: error(503) }])(
    'is used when it is sent',
    async ({ decode }) => {
      play({ prefill: answerFile('prefill.without-params.json'), decode });
      await run({ params });
      expect(counted('kv', 'kv-shared-storage')).toEqual(one('used'));
    },
  );

  it('is nothing to account for before', async () => {
    play({ prefill: answerFile('prefill.without-params.json') });
    await run({ params, beforeDecode: leave });
    expect(rig.handoffs.toJSON().kv).toEqual({});
    expect(rig.legs('decode')).toEqual([]);
  });
});

describe('EC hand-offs of ec-nixl', () => {
  const request = 'chat.two-images';

  it('are used by the prefill leg, one for each encode answer', async () => {
    play({});
    await run({ request });
    expect(counted('ec', 'ec-nixl')).toEqual(one('used', 2));
    expect(counted('kv', 'kv-nixl')).toEqual(one('used'));
  });

  it('expire in the pod’s cache when the client leaves before prefill', async () => {
    play({});
    expect(await run({ request, beforePrefill: leave })).toBeInstanceOf(ClientGoneError);
    expect(counted('ec', 'ec-nixl')).toEqual(one('expired', 2));
    expect(rig.gateway.calls).toHaveLength(2);
  });

  it('expire when another item fails', async () => {
    play({ encode: [answerFile('encode.0.json'), error(503)] });
    expect(await run({ request })).toBeInstanceOf(Error);
    expect(counted('ec', 'ec-nixl')).toEqual(one('expired'));
  });

  it('expire when prefill cannot choose between two descriptors', async () => {
    const descriptor = (size: number): Answer => ({
      json: { ec_transfer_params: { h: { size } } },
    });
    play({ encode: [descriptor(1), descriptor(2)] });
    expect(await run({ request })).toBeInstanceOf(Error);
    expect(counted('ec', 'ec-nixl')).toEqual(one('expired', 2));
  });

  it('are not offered by null descriptors', async () => {
    const nothing: Answer = { json: { ec_transfer_params: { h: null } } };
    play({ encode: [nothing, nothing] });
    await run({ request });
    expect(rig.handoffs.toJSON().ec).toEqual({});
  });

  it('are none of ec-shared-storage', async () => {
    play({});
    await run({ request, params: { kv_connector: 'kv-nixl', ec_connector: 'ec-shared-storage' } });
    expect(rig.handoffs.toJSON().ec).toEqual({});
  });
});
