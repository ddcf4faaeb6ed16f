import { describe, expect, it } from '@jest/globals';
import { exactNumber, type JsonObject } from './exact-json.ts';
import {
  askPrefill,
  decode,
  forDecode,
  generatePath,
  get,
  idsOf,
  post,
  prefill,
  without,
  workerFarm,
} from './testing.ts';
import { type Worker } from './worker.ts';

const start = workerFarm();

async function pair(): Promise<{ prefiller: Worker; decoder: Worker }> {
  return {
    prefiller: await start({ role: 'prefill', podName: 'prefill-1', mode: 'count' }),
    decoder: await start({ role: 'decode', podName: 'decode-1', mode: 'count' }),
  };
}

const messageOf = (json: JsonObject): string => JSON.stringify(json['error']);

describe('a hand-off that is used once, whole and in time', () => {
  it('is served without recompute', async () => {
    const { prefiller, decoder } = await pair();
    const params = await prefill(prefiller, idsOf(1));
    expect(prefiller.state().leases).toEqual({
      ...{ held: 1, pulled: 0, expired: 0, released: 0 },
      ...{ pulledAgain: 0, pulledLate: 0 },
    });

    const answer = await decode(decoder, idsOf(1), forDecode(params));

    expect(answer.status).toBe(200);
    expect(prefiller.state().leases).toMatchObject({ held: 0, pulled: 1, pulledAgain: 0 });
    expect(decoder.state().counters['sim_local_prefill_total']).toBe(0);
    expect(decoder.requests()[0]?.kv).toEqual({ source: 'external', pod: 'prefill-1', blocks: 3 });
  });

  it('has the fields of vLLM 0.32, block numbers in a nested list', async () => {
    const { prefiller } = await pair();
    const params = await prefill(prefiller, idsOf(1));
    expect(params).toMatchObject({
      do_remote_prefill: true,
      do_remote_decode: false,
      remote_block_ids: [[1, 2, 3]],
      remote_engine_id: prefiller.state().engineId,
      remote_host: '127.0.0.1',
      remote_port: prefiller.kvPort,
      remote_num_tokens: 40,
      remote_blocks_expiry_time: null,
    });
    expect(params['remote_request_id']).toMatch(/^generate-tokens-.+-[0-9a-f]{8}$/);
  });

  it('works in sampling_params.extra_args too, but not with two different sets', async () => {
    const { prefiller, decoder } = await pair();
    const params = forDecode(await prefill(prefiller, idsOf(1)));
    const body = {
      token_ids: idsOf(1),
      sampling_params: { max_tokens: 2, extra_args: { kv_transfer_params: params } },
    };
    const conflict = await post(decoder.url + generatePath, {
      ...body,
      kv_transfer_params: { ...params, tp_size: 2 },
    });
    expect(conflict.status).toBe(400);
    expect((await post(decoder.url + generatePath, body)).status).toBe(200);
  });
});

describe('a wrong hand-off fails the request and leaves the pod alive', () => {
  it.each<{ name: string; wrong: (params: JsonObject) => JsonObject; says: string }>([
    {
      name: 'a dropped field',
      wrong: (params) => without(params, 'tp_size'),
      says: 'altered: tp_size',
    },
    {
      name: 'an added field',
      wrong: (params) => ({ ...params, extra: 1 }),
      says: 'altered: extra',
    },
    {
      name: 'a block number altered',
      wrong: (params) => ({ ...params, remote_block_ids: [[1, 2, 4]] }),
      says: 'altered: remote_block_ids',
    },
    {
      name: 'a digit beyond 2^53 rounded away',
      wrong: (params) => ({
        ...params,
        sim_lease_nonce: exactNumber(
          String(BigInt(JSON.stringify(params['sim_lease_nonce'])) - 1n),
        ),
      }),
      says: 'altered: sim_lease_nonce',
    },
    {
      name: 'parsed into doubles on the way',
      wrong: (params) => JSON.parse(JSON.stringify(params)) as JsonObject,
      says: 'altered: sim_lease_nonce',
    },
    {
      name: 'a number that became text',
      wrong: (params) => ({ ...params, remote_num_tokens: '40' }),
      says: 'altered: remote_num_tokens',
    },
    {
      name: 'the request id of nobody',
      wrong: (params) => ({ ...params, remote_request_id: 'generate-tokens-x-00000000' }),
      says: 'unknown-lease',
    },
    {
      name: 'the engine id of nobody',
      wrong: (params) => ({ ...params, remote_engine_id: '11111111-0000-0000-0000-000000000000' }),
      says: 'unknown-engine',
    },
    {
      name: 'a dead port',
      wrong: (params) => ({ ...params, remote_port: 9 }),
      says: 'unreachable',
    },
  ])('$name', async ({ wrong, says }) => {
    const { prefiller, decoder } = await pair();
    const params = await prefill(prefiller, idsOf(1));
    const answer = await decode(decoder, idsOf(1), wrong(forDecode(params)));
    expect(answer.status).toBe(500);
    expect(messageOf(answer.json)).toContain(says);
    expect((await get(`${decoder.url}/health`)).status).toBe(200);
    // Nothing was handed out, so the right set still works.
    expect((await decode(decoder, idsOf(1), forDecode(params))).status).toBe(200);
  });

  it('params swapped between two prompts', async () => {
    const { prefiller, decoder } = await pair();
    const one = forDecode(await prefill(prefiller, idsOf(1)));
    const two = forDecode(await prefill(prefiller, idsOf(2)));
    const answers = [await decode(decoder, idsOf(1), two), await decode(decoder, idsOf(2), one)];
    expect(answers.map(({ status }) => status)).toEqual([500, 500]);
    expect(messageOf(answers[0]?.json ?? {})).toContain('other-prompt');
    expect(prefiller.state().leases.held).toBe(2);
  });

  it('params used a second time', async () => {
    const { prefiller, decoder } = await pair();
    const params = forDecode(await prefill(prefiller, idsOf(1)));
    expect((await decode(decoder, idsOf(1), params)).status).toBe(200);
    const again = await decode(decoder, idsOf(1), params);
    expect(again.status).toBe(500);
    expect(messageOf(again.json)).toContain('already-pulled');
    expect(prefiller.state().leases).toMatchObject({ pulled: 1, pulledAgain: 1, pulledLate: 0 });
  });

  it('params of another prefill pod under this one’s address', async () => {
    const { prefiller, decoder } = await pair();
    const other = await start({ role: 'prefill', podName: 'prefill-2' });
    const params = forDecode(await prefill(prefiller, idsOf(1)));
    const foreign = forDecode(await prefill(other, idsOf(1)));
    const answer = await decode(decoder, idsOf(1), {
      ...params,
      remote_host: foreign['remote_host'],
      remote_port: foreign['remote_port'],
    });
    expect(answer.status).toBe(500);
    expect(messageOf(answer.json)).toContain('unknown-engine');
  });

  it('params after the lease has ended', async () => {
    const prefiller = await start({ role: 'prefill', kvLeaseMs: 1 });
    const decoder = await start({ role: 'decode' });
    const params = forDecode(await prefill(prefiller, idsOf(1)));
    while (prefiller.state().leases.held > 0) await new Promise((resolve) => setImmediate(resolve));
    const answer = await decode(decoder, idsOf(1), params);
    expect(answer.status).toBe(500);
    expect(messageOf(answer.json)).toContain('expired');
    expect(prefiller.state()).toMatchObject({ leases: { held: 0, expired: 1, pulledLate: 1 } });
  });

  it('a second sequence, which would read released blocks', async () => {
    const { prefiller, decoder } = await pair();
    const params = forDecode(await prefill(prefiller, idsOf(1)));
    const answer = await post(`${decoder.url}/v1/completions`, {
      prompt: idsOf(1),
      n: 2,
      kv_transfer_params: params,
    });
    expect(answer.status).toBe(500);
    expect(messageOf(answer.json)).toContain('already-pulled');
  });

  it('is recomputed and counted under SIM_KV_LOAD_FAILURE=recompute', async () => {
    const prefiller = await start({ role: 'prefill' });
    const decoder = await start({ role: 'decode', kvLoadFailure: 'recompute', mode: 'count' });
    const params = forDecode(await prefill(prefiller, idsOf(1)));
    expect((await decode(decoder, idsOf(2), params)).status).toBe(200);
    expect(decoder.state().counters['sim_local_prefill_total']).toBe(1);
    expect(decoder.requests()[0]?.kv?.source).toBe('local');
  });

  it('is believed without SIM_KV_STRICT, as a real pod believes it', async () => {
    const prefiller = await start({ role: 'prefill' });
    const decoder = await start({ role: 'decode', kvStrict: false, mode: 'count' });
    const params = forDecode(await prefill(prefiller, idsOf(1)));
    expect((await decode(decoder, idsOf(2), params)).status).toBe(200);
    expect(decoder.requests()[0]?.kv?.source).toBe('external');
  });
});

describe('what ends a real decode pod ends this one', () => {
  const flags = { do_remote_prefill: true, do_remote_decode: false };
  it.each<{ name: string; wrong: (params: JsonObject) => JsonObject }>([
    { name: 'the two flags only', wrong: () => flags },
    { name: 'null fields', wrong: () => ({ ...askPrefill, ...flags }) },
    { name: 'empty blocks', wrong: (params) => ({ ...params, remote_block_ids: [] }) },
    { name: 'an empty block group', wrong: (params) => ({ ...params, remote_block_ids: [[]] }) },
    { name: 'no engine id', wrong: (params) => without(params, 'remote_engine_id') },
    { name: 'no request id', wrong: (params) => without(params, 'remote_request_id') },
    { name: 'no host', wrong: (params) => without(params, 'remote_host') },
    { name: 'a null port', wrong: (params) => ({ ...params, remote_port: null }) },
  ])('$name', async ({ wrong }) => {
    const { prefiller, decoder } = await pair();
    const params = forDecode(await prefill(prefiller, idsOf(1)));
    const answer = await decode(decoder, idsOf(1), wrong(params));
    expect(answer.status).toBe(500);
    expect(messageOf(answer.json)).toContain('EngineCore encountered an issue');

    expect((await decode(decoder, idsOf(1), params)).status).toBe(503);
    expect((await get(`${decoder.url}/health`)).status).toBe(503);
    expect((await get(`${decoder.url}/metrics`)).status).toBe(503);

    expect((await post(`${decoder.url}/admin/reset`, '')).status).toBe(200);
    expect((await get(`${decoder.url}/health`)).status).toBe(200);
    expect((await decode(decoder, idsOf(1), params)).status).toBe(200);
  });
});

describe('without usable params', () => {
  it('decode computes here and says so', async () => {
    const { decoder } = await pair();
    const answer = await post(decoder.url + generatePath, {
      token_ids: idsOf(1),
      sampling_params: { max_tokens: 2 },
    });
    expect(answer.status).toBe(200);
    expect(decoder.state().counters['sim_local_prefill_total']).toBe(1);
    expect(decoder.requests()[0]?.kv?.source).toBe('local');
  });

  it('chat and completions do not read sampling_params.extra_args: a silent recompute', async () => {
    const { prefiller, decoder } = await pair();
    const params = forDecode(await prefill(prefiller, idsOf(1)));
    await post(`${decoder.url}/v1/completions`, {
      prompt: idsOf(1),
      sampling_params: { extra_args: { kv_transfer_params: params } },
    });
    expect(decoder.state().counters['sim_local_prefill_total']).toBe(1);
    expect(prefiller.state().leases.held).toBe(1);
  });
});

it.each([
  { api: 'completions', path: '/v1/completions', released: 1 },
  { api: 'generate', path: generatePath, released: 0 },
])('a body that decode refuses frees the blocks at once on $api: $released', async (row) => {
  const { prefiller, decoder } = await pair();
  const params = forDecode(await prefill(prefiller, idsOf(1)));
  const sampling = { temperature: -3 };
  const answer = await post(decoder.url + row.path, {
    prompt: idsOf(1),
    token_ids: idsOf(1),
    ...sampling,
    sampling_params: sampling,
    kv_transfer_params: params,
  });
  expect(answer.status).toBe(400);
  expect(prefiller.state().leases).toMatchObject({
    held: 1 - row.released,
    released: row.released,
    expired: 0,
  });
});

it('prefill with n = 2 pins two block sets and answers the last', async () => {
  const { prefiller, decoder } = await pair();
  const answer = await post(`${prefiller.url}/v1/completions`, {
    prompt: idsOf(1),
    n: 2,
    max_tokens: 1,
    kv_transfer_params: askPrefill,
  });
  const params = answer.json['kv_transfer_params'];
  expect(params).toMatchObject({ remote_request_id: expect.stringMatching(/^1_cmpl-/) });
  expect(prefiller.state().leases.held).toBe(2);
  expect((await decode(decoder, idsOf(1), forDecode(params))).status).toBe(200);
  expect(prefiller.state().leases.held).toBe(1);
});

it.each([generatePath, '/v1/completions'])(
  'a client that leaves while its decode on %s waits for a turn frees the blocks',
  async (path) => {
    const prefiller = await start({ role: 'prefill' });
    const decoder = await start({ role: 'decode', maxNumSeqs: 1, itlMs: 60_000 });
    const params = forDecode(await prefill(prefiller, idsOf(1)));
    const ask = (body: object, signal?: AbortSignal): Promise<unknown> =>
      post(
        decoder.url + path,
        { prompt: idsOf(1), token_ids: idsOf(1), sampling_params: {}, ...body },
        {},
        signal,
      ).catch(() => undefined);
    const busy = ask({});
    const client = new AbortController();
    const waiting = ask({ kv_transfer_params: params }, client.signal);
    const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
    while (decoder.state().waiting === 0) await turn();
    client.abort();
    await waiting;
    while (prefiller.state().leases.held > 0) await turn();
    expect(prefiller.state().leases).toMatchObject({ released: 1, expired: 0, pulled: 0 });
    await decoder.close();
    await busy;
  },
);
