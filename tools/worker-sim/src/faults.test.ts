import { describe, expect, it } from '@jest/globals';
import { request } from 'undici';
import { ApiError } from './api-error.ts';
import { ActiveFaults, parseFaults } from './faults.ts';
import { isObject } from './exact-json.ts';
import { seededRandom } from './random.ts';
import {
  askPrefill,
  decode,
  forDecode,
  generatePath,
  get,
  idsOf,
  post,
  prefill,
  workerFarm,
} from './testing.ts';

const start = workerFarm();
const body = { token_ids: idsOf(1), sampling_params: { max_tokens: 4 } };
const streamed = { ...body, stream: true };
const withFaults = (): ReturnType<typeof start> => start({ faultHeaders: true, mode: 'count' });
const fault = (text: string): Record<string, string> => ({ 'x-sim-fault': text });

describe('the grammar', () => {
  it('reads value, settings and several faults', () =>
    expect(parseFaults('status=503;rate=10, stall;after=3;ms=500')).toEqual([
      { name: 'status', value: 503, after: undefined, ms: undefined, rate: 10 },
      { name: 'stall', value: undefined, after: 3, ms: 500, rate: 100 },
    ]));

  it.each(['unknown', 'status=x', 'reset;when=3', 'reset;after='])('refuses %s', (text) =>
    expect(() => parseFaults(text)).toThrow(ApiError),
  );

  it('rolls the dice once per request, the same way for the same seed', () => {
    const strikes = (seed: number): number => {
      const random = seededRandom(seed);
      const faults = parseFaults('status=503;rate=30');
      return Array.from({ length: 200 }, () =>
        new ActiveFaults(faults, random, () => undefined).atStart('status'),
      ).filter(Boolean).length;
    };
    expect(strikes(1)).toBe(strikes(1));
    expect(strikes(1)).toBeGreaterThan(30);
    expect(strikes(1)).toBeLessThan(90);
  });
});

describe('faults of one request', () => {
  it('are ignored unless SIM_FAULT_HEADERS is on', async () => {
    const { url } = await start({ mode: 'count' });
    expect((await post(url + generatePath, body, fault('status=503'))).status).toBe(200);
  });

  it('status answers it, also by X-Return-Error, and is counted', async () => {
    const { url } = await withFaults();
    const answer = await post(url + generatePath, body, fault('status=503'));
    expect(answer.status).toBe(503);
    expect(answer.headers['retry-after']).toBe('1');
    expect((await post(url + generatePath, body, { 'x-return-error': '429' })).status).toBe(429);
    expect((await get(`${url}/metrics`)).text).toContain('fault="status"} 2');
  });

  it.each(['reset', 'reset;after=2'])('%s cuts the connection', async (text) => {
    const { url, requests } = await withFaults();
    const answer = post(url + generatePath, streamed, fault(text));
    await expect(answer).rejects.toThrow();
    expect(requests()[0]?.outcome).toMatchObject({
      status: 'failed',
      completionTokens: text === 'reset' ? 0 : 2,
    });
  });

  it('truncate ends cleanly without finish and [DONE]', async () => {
    const { url } = await withFaults();
    const { status, text } = await post(url + generatePath, streamed, fault('truncate;after=2'));
    expect(status).toBe(200);
    expect(text.match(/^data: /gm)).toHaveLength(2);
    expect(text).not.toContain('[DONE]');
  });

  it('error-frame sends an error in band, then [DONE]', async () => {
    const { url } = await withFaults();
    const { text } = await post(url + generatePath, streamed, fault('error-frame;after=1'));
    const frames = text.trim().split('\n\n');
    expect(frames).toHaveLength(3);
    expect(frames[1]).toContain('"error":{"message":"injected error"');
    expect(frames[2]).toBe('data: [DONE]');
  });

  it('garbage is no JSON, tiny-chunks is the same text byte by byte', async () => {
    const { url } = await withFaults();
    const garbage = await post(url + generatePath, body, fault('garbage'));
    expect(() => JSON.parse(garbage.text) as unknown).toThrow();
    const tiny = await post(url + generatePath, streamed, fault('tiny-chunks'));
    expect(tiny.text.trim().split('\n\n')).toHaveLength(5);
  });

  it('hang answers nothing until the client leaves', async () => {
    const { url, requests } = await withFaults();
    const abort = new AbortController();
    const answer = request(url + generatePath, {
      method: 'POST',
      headers: fault('hang'),
      body: JSON.stringify(body),
      signal: abort.signal,
    });
    while (requests()[0]?.bodySha256 === undefined || requests()[0]?.bodySha256 === '') {
      await new Promise((resolve) => setImmediate(resolve));
    }
    abort.abort();
    await expect(answer).rejects.toThrow();
    while (requests()[0]?.outcome.status === 'running') {
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect(requests()[0]?.outcome.status).toBe('aborted');
  });

  it.each([
    { text: 'drop-kv-params', expected: null },
    {
      text: 'wrong-engine',
      expected: expect.objectContaining({ remote_num_tokens: 40 }),
    },
  ])('$text on prefill', async ({ text, expected }) => {
    const { url, state } = await start({ role: 'prefill', faultHeaders: true });
    const { json } = await post(
      url + generatePath,
      { ...body, sampling_params: { max_tokens: 1 }, kv_transfer_params: askPrefill },
      fault(text),
    );
    const params = json['kv_transfer_params'];
    expect(params).toEqual(expected);
    if (isObject(params)) expect(params['remote_engine_id']).not.toBe(state().engineId);
  });

  it('lease-expire frees the blocks at once, so that decode fails', async () => {
    const prefiller = await start({ role: 'prefill', fault: 'lease-expire' });
    const decoder = await start({ role: 'decode' });
    const params = forDecode(await prefill(prefiller, idsOf(1)));
    expect((await decode(decoder, idsOf(1), params)).text).toContain('expired');
  });

  it('null-ec answers null descriptors', async () => {
    const { url } = await start({ role: 'encode', faultHeaders: true });
    const { json } = await post(
      url + generatePath,
      {
        token_ids: [1, 2, 2],
        sampling_params: { max_tokens: 1 },
        features: {
          mm_hashes: { image: ['a'] },
          mm_placeholders: { image: [{ offset: 1, length: 2 }] },
          kwargs_data: { image: ['AAAA'] },
        },
      },
      fault('null-ec'),
    );
    expect(json['ec_transfer_params']).toEqual({ a: null });
  });
});

describe('faults of the pod', () => {
  it('are set and cleared by the admin interface', async () => {
    const { url } = await start({ mode: 'count' });
    const set = await post(`${url}/admin/config`, { fault: 'status=500' });
    expect(set.status).toBe(200);
    expect((await post(url + generatePath, body)).status).toBe(500);
    await post(`${url}/admin/reset`, '');
    expect((await post(url + generatePath, body)).status).toBe(200);
  });

  it('oom takes the pod down after the request', async () => {
    const codes: number[] = [];
    const { url } = await start(
      { fault: 'oom', mode: 'count' },
      { exit: (code) => codes.push(code) },
    );
    expect((await post(url + generatePath, body)).status).toBe(200);
    expect(codes).toEqual([137]);
    const embedded = await start({ fault: 'oom', mode: 'count' });
    await post(embedded.url + generatePath, body);
    expect((await get(`${embedded.url}/health`)).status).toBe(503);
  });

  it('not-ready keeps the pod out for a while', async () => {
    const { url } = await start({ fault: 'not-ready=600000' });
    expect((await get(`${url}/health/ready`)).status).toBe(503);
    await post(`${url}/admin/config`, { fault: '' });
    expect((await get(`${url}/health/ready`)).status).toBe(200);
  });
});
