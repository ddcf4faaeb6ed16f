import { describe, expect, it } from '@jest/globals';
import { type JsonObject } from './exact-json.ts';
import { type Role } from './options.ts';
import { askPrefill, generatePath, idsOf, post, workerFarm } from './testing.ts';

const start = workerFarm();
const features: JsonObject = {
  mm_hashes: { image: ['a'.repeat(64)] },
  mm_placeholders: { image: [{ offset: 1, length: 3 }] },
  kwargs_data: { image: ['AAAA'] },
};
const capped = { max_tokens: 1 };

describe('a strict worker refuses what its role must not get', () => {
  it.each<{ name: string; role: Role; body: JsonObject; path?: string; says: string }>([
    {
      name: 'encode without media',
      role: 'encode',
      body: { sampling_params: capped },
      says: 'without multimodal input',
    },
    {
      name: 'encode with KV params',
      role: 'encode',
      body: { sampling_params: capped, features, kv_transfer_params: {} },
      says: 'kv_transfer_params',
    },
    {
      name: 'encode on completions',
      role: 'encode',
      path: '/v1/completions',
      body: { prompt: [1] },
      says: 'does not serve completions',
    },
    {
      name: 'prefill without do_remote_decode',
      role: 'prefill',
      body: { sampling_params: capped },
      says: 'do_remote_decode',
    },
    {
      name: 'prefill with more than one token',
      role: 'prefill',
      body: { sampling_params: { max_tokens: 2 }, kv_transfer_params: askPrefill },
      says: 'prefill expects max_tokens 1',
    },
    {
      name: 'prefill without a cap',
      role: 'prefill',
      body: { sampling_params: {}, kv_transfer_params: askPrefill },
      says: 'prefill expects max_tokens 1',
    },
    {
      name: 'prefill that streams',
      role: 'prefill',
      body: { stream: true, sampling_params: capped, kv_transfer_params: askPrefill },
      says: 'Prefill does not support streaming',
    },
    {
      name: 'decode asked to prefill',
      role: 'decode',
      body: { sampling_params: {}, kv_transfer_params: askPrefill },
      says: 'do_remote_decode',
    },
  ])('$name', async ({ role, body, path = generatePath, says }) => {
    const { url, state } = await start({ role });
    const answer = await post(url + path, { token_ids: idsOf(1), ...body });
    expect(answer.status).toBe(400);
    expect(answer.text).toContain(says);
    expect(state().counters['sim_role_violation_total']).toBe(1);
  });

  it.each<{ role: Role; profile: string; status: number }>([
    { role: 'decode', profile: 'decode', status: 200 },
    { role: 'decode', profile: 'prefill', status: 421 },
    { role: 'decode', profile: 'Decode', status: 421 },
    { role: 'encode-prefill-decode', profile: 'decode', status: 200 },
    { role: 'prefill-decode', profile: 'encode', status: 421 },
  ])('$role gets EPP-Profile $profile: $status', async ({ role, profile, status }) => {
    const { url } = await start({ role, mode: 'count' });
    const answer = await post(
      url + generatePath,
      { token_ids: idsOf(1), sampling_params: {} },
      { 'epp-profile': profile },
    );
    expect(answer.status).toBe(status);
  });

  it('decode accepts encoder params, ignores and counts them', async () => {
    const { url, state } = await start({ mode: 'count' });
    const answer = await post(url + generatePath, {
      token_ids: idsOf(1),
      sampling_params: {},
      ec_transfer_params: { a: {} },
    });
    expect(answer.status).toBe(200);
    expect(state().counters['sim_ignored_ec_params_total']).toBe(1);
  });

  it('one pod of all roles plays the phase that the header or the params name', async () => {
    const { url, requests } = await start({ role: 'encode-prefill-decode', mode: 'count' });
    const ids = { token_ids: idsOf(1), features };
    await post(
      url + generatePath,
      { ...ids, sampling_params: capped },
      { 'epp-profile': 'encode' },
    );
    await post(url + generatePath, {
      ...ids,
      sampling_params: capped,
      kv_transfer_params: askPrefill,
    });
    await post(url + generatePath, { ...ids, sampling_params: {} });
    expect(requests().map(({ phase }) => phase)).toEqual(['encode', 'prefill', 'decode']);
  });
});
