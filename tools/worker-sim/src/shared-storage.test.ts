import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { type JsonObject } from './exact-json.ts';
import { type WorkerOptions } from './options.ts';
import { type Answer, generatePath, idsOf, pngUrl, post, workerFarm } from './testing.ts';
import { type Worker } from './worker.ts';

const start = workerFarm();
let sharedDir = '';
beforeEach(async () => {
  sharedDir = await mkdtemp(join(tmpdir(), 'worker-sim-'));
});
afterEach(() => rm(sharedDir, { recursive: true }));

const shared = (): WorkerOptions => ({
  kvConnector: 'shared-storage',
  ecConnector: 'shared-storage',
  sharedDir,
  mode: 'count',
});
const prefill = (worker: Worker, ids: number[]): Promise<Answer> =>
  post(worker.url + generatePath, {
    token_ids: ids,
    sampling_params: { max_tokens: 1 },
    kv_transfer_params: { do_remote_decode: true, do_remote_prefill: false },
  });
const decode = (worker: Worker, ids: number[]): Promise<Answer> =>
  post(worker.url + generatePath, {
    token_ids: ids,
    sampling_params: {},
    kv_transfer_params: { do_remote_decode: false, do_remote_prefill: true },
  });

describe('KV over shared storage', () => {
  it('decode finds the whole blocks that prefill stored; the answer carries no params', async () => {
    const prefiller = await start({ ...shared(), role: 'prefill', podName: 'prefill-1' });
    const decoder = await start({ ...shared(), role: 'decode' });
    expect((await prefill(prefiller, idsOf(1))).json['kv_transfer_params']).toBeNull();
    expect((await decode(decoder, idsOf(1))).status).toBe(200);
    // floor((40 - 2) / 16): the block of the last token is computed.
    expect(decoder.requests()[0]?.kv).toEqual({ source: 'external', pod: 'prefill-1', blocks: 2 });
    expect(decoder.state().counters['sim_local_prefill_total']).toBe(0);
  });

  it('decode computes what nobody stored, and says so', async () => {
    const prefiller = await start({ ...shared(), role: 'prefill' });
    const decoder = await start({ ...shared(), role: 'decode' });
    await prefill(prefiller, idsOf(1));
    expect((await decode(decoder, idsOf(2))).status).toBe(200);
    expect(decoder.requests()[0]?.kv?.source).toBe('local');
    expect(decoder.state().counters['sim_local_prefill_total']).toBe(1);
  });

  it('a prompt without one whole block moves nothing and is nobody’s fault', async () => {
    const prefiller = await start({ ...shared(), role: 'prefill' });
    const decoder = await start({ ...shared(), role: 'decode' });
    await prefill(prefiller, idsOf(1, 10));
    await decode(decoder, idsOf(1, 10));
    expect(decoder.requests()[0]?.kv?.source).toBe('local');
    expect(decoder.state().counters['sim_local_prefill_total']).toBe(0);
  });

  it('the two flags do not end a pod that does not speak nixl', async () => {
    const decoder = await start({ ...shared(), role: 'decode' });
    expect((await decode(decoder, idsOf(1))).status).toBe(200);
    expect(decoder.state().deathCause).toBeUndefined();
  });
});

describe('embeddings over shared storage', () => {
  const chat = (worker: Worker, more: JsonObject): Promise<Answer> =>
    post(`${worker.url}/v1/chat/completions`, {
      messages: [
        {
          role: 'user',
          content: [{ type: 'image_url', image_url: { url: pngUrl(64, 64) } }],
        },
      ],
      max_tokens: 1,
      ...more,
    });
  const ask = { kv_transfer_params: { do_remote_decode: true, do_remote_prefill: false } };

  it('prefill finds what encode stored, without any params on the wire', async () => {
    const encoder = await start({ ...shared(), role: 'encode', podName: 'encode-1' });
    const prefiller = await start({ ...shared(), role: 'prefill' });
    expect((await chat(encoder, {})).status).toBe(200);
    expect((await chat(prefiller, ask)).status).toBe(200);
    expect(prefiller.requests()[0]?.ec[0]).toMatchObject({ source: 'external', peer: 'encode-1' });
  });

  it('an image that nobody encoded is refused', async () => {
    const prefiller = await start({ ...shared(), role: 'prefill' });
    const answer = await chat(prefiller, ask);
    expect(answer.status).toBe(500);
    expect(answer.text).toContain('encoder cache miss');
  });
});
