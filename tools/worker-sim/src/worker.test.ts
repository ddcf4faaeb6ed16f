import { createHash } from 'node:crypto';
import { describe, expect, it } from '@jest/globals';
import { request } from 'undici';
import {
  decode,
  forDecode,
  generatePath,
  get,
  idsOf,
  post,
  prefill,
  workerFarm,
} from './testing.ts';
import { type Worker } from './worker.ts';

const start = workerFarm();
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
const long = { token_ids: idsOf(1), sampling_params: { max_tokens: 1000 } };

async function ended(worker: Worker): Promise<void> {
  while (worker.requests()[0]?.outcome.status === 'running') await turn();
}

describe('a client that leaves', () => {
  it('mid-stream stops the generation and frees slot and blocks', async () => {
    const worker = await start({ mode: 'count', itlMs: 2 });
    const { body } = await request(worker.url + generatePath, {
      method: 'POST',
      body: JSON.stringify({ ...long, stream: true }),
    });
    await body[Symbol.asyncIterator]().next();
    body.on('error', () => undefined).destroy();
    await ended(worker);
    const { outcome } = worker.requests()[0] ?? {};
    expect(outcome).toMatchObject({ status: 'aborted', httpStatus: 200 });
    expect(outcome?.completionTokens).toBeLessThan(1000);
    expect(worker.state()).toMatchObject({ running: 0, counters: { sim_aborted_total: 1 } });
  });

  it('before the answer, while it waits for a slot or computes, is recorded as aborted', async () => {
    const worker = await start({ mode: 'count', maxNumSeqs: 1, prefillOverheadMs: 600_000 });
    const abort = new AbortController();
    const calls = [1, 2].map(() =>
      request(worker.url + generatePath, {
        method: 'POST',
        body: JSON.stringify(long),
        signal: abort.signal,
      }),
    );
    while (worker.state().waiting === 0) await turn();
    abort.abort();
    await Promise.all(calls.map((call) => expect(call).rejects.toThrow()));
    while (worker.state().counters['sim_aborted_total'] !== 2) await turn();
    expect(worker.state()).toMatchObject({ running: 0, waiting: 0 });
    expect(worker.requests().map(({ outcome }) => outcome.status)).toEqual(['aborted', 'aborted']);
  });

  it('does not lose blocks that were pulled, nor leases', async () => {
    const prefiller = await start({ role: 'prefill' });
    const decoder = await start({ mode: 'count', itlMs: 600_000 });
    const params = forDecode(await prefill(prefiller, idsOf(1)));
    const abort = new AbortController();
    const call = request(decoder.url + generatePath, {
      method: 'POST',
      body: JSON.stringify({ ...long, kv_transfer_params: params }),
      signal: abort.signal,
    });
    while (decoder.requests()[0]?.kv === undefined) await turn();
    abort.abort();
    await expect(call).rejects.toThrow();
    await ended(decoder);
    expect(prefiller.state()).toMatchObject({ leases: { held: 0, pulled: 1 } });
    // What is left is the prefix cache: two whole blocks.
    expect(decoder.state().blocks.used).toBe(2);
    expect(prefiller.state().blocks.used).toBe(2);
  });
});

describe('admission', () => {
  it('runs so many, queues so many, refuses the rest with 503 and Retry-After', async () => {
    const worker = await start({ mode: 'count', maxNumSeqs: 1, maxWaiting: 1, ttftMs: 500 });
    const call = (): ReturnType<typeof post> => post(worker.url + generatePath, long);
    const answers = await Promise.all([call(), call(), call()]);
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 200, 503]);
    expect(answers.find(({ status }) => status === 503)?.headers['retry-after']).toBe('1');
  });

  it('refuses a prompt that needs more blocks than are free', async () => {
    const prefiller = await start({ role: 'prefill', kvBlocks: 4 });
    await prefill(prefiller, idsOf(1));
    await expect(prefill(prefiller, idsOf(2))).rejects.toThrow('503');
    expect(prefiller.state().leases.held).toBe(1);
  });
});

describe('the prefix cache', () => {
  it('reports cached tokens, never the last block, and does not count a cached prompt as recompute', async () => {
    const worker = await start({ mode: 'count' });
    const call = (): ReturnType<typeof post> => post(worker.url + generatePath, long);
    await call();
    const { json } = await call();
    expect(json['usage']).toMatchObject({ prompt_tokens_details: { cached_tokens: 32 } });
    expect(worker.state().counters['sim_local_prefill_total']).toBe(1);
  });

  it('answers 412 to Prefer: if-available when it shall and holds too little', async () => {
    const worker = await start({
      mode: 'count',
      conditionalDecode: 'enforce',
      promptTokens: 8,
      noncachedTokens: 16,
    });
    const probe = (): ReturnType<typeof post> =>
      post(worker.url + generatePath, long, { prefer: 'respond-async, if-available;wait=1' });
    const refused = await probe();
    expect(refused.status).toBe(412);
    expect(refused.headers['x-sim-cached-tokens']).toBe('0');
    expect((await probe()).status).toBe(412);
    await post(worker.url + generatePath, long);
    expect((await probe()).status).toBe(200);
    const short = { token_ids: [1, 2], sampling_params: {} };
    expect((await post(worker.url + generatePath, short, { prefer: 'if-available' })).status).toBe(
      200,
    );
  });

  it('ignores Prefer by default, as vLLM does', async () => {
    const worker = await start({ mode: 'count' });
    const answer = await post(worker.url + generatePath, long, { prefer: 'if-available' });
    expect(answer.status).toBe(200);
  });
});

describe('the admin interface', () => {
  it('records each request with its body digest, found by request id', async () => {
    const { url } = await start({ mode: 'count' });
    const body = JSON.stringify(long);
    await post(url + generatePath, body, { 'x-request-id': 'r-1', 'x-tenant': 'blue' });
    await post(url + generatePath, body, { 'x-request-id': 'r-2' });
    const { json } = await get(`${url}/admin/requests?request_id=r-1`);
    expect(json['requests']).toMatchObject([
      {
        requestId: 'r-1',
        path: generatePath,
        bodyBytes: body.length,
        bodySha256: createHash('sha256').update(body).digest('hex'),
        headers: { 'x-tenant': 'blue' },
        promptTokens: 40,
        maxTokens: 1000,
        outcome: { status: 'finished', completionTokens: 1000 },
      },
    ]);
  });

  it('keeps every digit of the params it records', async () => {
    const { url } = await start({ mode: 'count' });
    const text = JSON.stringify(long).replace(
      '{',
      '{"kv_transfer_params":{"x":9007199254740993,"y":1.0},',
    );
    await post(url + generatePath, text);
    expect((await get(`${url}/admin/requests`)).text).toContain('{"x":9007199254740993,"y":1.0}');
  });

  it.each([
    { name: 'an unknown key', patch: { nope: 1 }, says: 'nope' },
    { name: 'a key that is fixed at start', patch: { role: 'encode' }, says: 'role' },
    { name: 'a bad value', patch: { itlMs: -1 }, says: 'itlMs' },
    { name: 'an unknown fault', patch: { fault: 'bang' }, says: 'bang' },
  ])('refuses $name with 400', async ({ patch, says }) => {
    const { url } = await start();
    const answer = await post(`${url}/admin/config`, patch);
    expect(answer.status).toBe(400);
    expect(answer.text).toContain(says);
  });

  it('patches what may change and shows it', async () => {
    const { url } = await start({ mode: 'count' });
    await post(`${url}/admin/config`, { mode: 'script', script: 'patched' });
    expect((await get(`${url}/admin/config`)).json).toMatchObject({
      mode: 'script',
      role: 'decode',
    });
    const answer = await post(`${url}/v1/completions`, { prompt: [1] });
    expect(answer.text).toContain('"text":"patched"');
  });
});

it('shows the metrics that an EPP scrapes from the first second', async () => {
  const { url } = await start();
  const { text } = await get(`${url}/metrics`);
  for (const name of [
    'vllm:num_requests_running',
    'vllm:num_requests_waiting',
    'vllm:kv_cache_usage_perc',
    'vllm:cache_config_info',
    'vllm:lora_requests_info',
  ]) {
    expect(text).toMatch(new RegExp(`^${name}\\{model_name="sim/model".*\\} \\d`, 'm'));
  }
});

it('counts external and local prompt tokens apart, as proof of transfer', async () => {
  const prefiller = await start({ role: 'prefill' });
  const decoder = await start({ mode: 'count' });
  await decode(decoder, idsOf(1), forDecode(await prefill(prefiller, idsOf(1))));
  const { text } = await get(`${decoder.url}/metrics`);
  expect(text).toContain(
    'prompt_tokens_by_source_total{model_name="sim/model",source="external_kv_transfer"} 40',
  );
  expect(text).not.toContain('source="local_compute"');
  expect(text).toContain(
    'vllm:request_success_total{model_name="sim/model",finished_reason="length"} 1',
  );
});

it('a taken port fails the start and leaves nothing open', async () => {
  const { url } = await start();
  await expect(start({ port: Number(new URL(url).port) })).rejects.toThrow('EADDRINUSE');
});
