import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import { afterEach, describe, expect, it } from '@jest/globals';
import { Agent, request } from 'undici';

import { type RunningShim, startShim } from './testing.ts';

const CHAT = '/v1/chat/completions/render';
const photo = readFileSync(join(import.meta.dirname, 'testdata/photo.jpg'));
let taken = 0;

/** A chat with so many photos, no two of all alike: bytes behind the end of a picture do not show. */
function photos(count: number): string {
  const content = Array.from({ length: count }, () => {
    const file = Buffer.concat([photo, Buffer.from(String(taken++))]).toString('base64');
    return { type: 'image_url', image_url: { url: `data:image/jpeg;base64,${file}` } };
  });
  return JSON.stringify({ messages: [{ role: 'user', content }] });
}

let shim: RunningShim;
const agent = new Agent();

afterEach(async () => {
  await shim.stop();
});

async function post(body: string, signal?: AbortSignal) {
  const answer = await request(`${shim.url}${CHAT}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body,
    dispatcher: agent,
    ...(signal !== undefined && { signal }),
  });
  return { status: answer.statusCode, headers: answer.headers, text: await answer.body.text() };
}

async function until(isTrue: () => boolean): Promise<void> {
  while (!isTrue()) await sleep(2);
}

describe('more work than the workers can do', () => {
  it('is refused with 503 and when to come back, and what waits is still done', async () => {
    shim = await startShim([{ mode: 'embedded', profile: {} }], {
      workers: { image: 1, queue: 4 },
    });
    const first = post(photos(4));
    await until(() => shim.workers.queued.images === 3);
    const refused = await post(photos(2));
    expect(refused.status).toBe(503);
    expect(refused.headers['retry-after']).toBe('1');
    expect(JSON.parse(refused.text)).toMatchObject({
      error: { type: 'ServiceUnavailableError', code: 503 },
    });
    expect((await first).status).toBe(200);
    expect((await post(photos(1))).status).toBe(200);
  });

  it('is given up with 504 when it takes too long, and the next request is served', async () => {
    shim = await startShim([{ mode: 'embedded', profile: {} }], {
      workers: { image: 1 },
      mediaTimeoutMs: 20,
    });
    const late = await post(photos(30));
    expect(late.status).toBe(504);
    expect(JSON.parse(late.text)).toMatchObject({ error: { type: 'TimeoutError' } });
    expect(shim.workers.queued.images).toBe(0);
    const text = JSON.stringify({ messages: [{ role: 'user', content: 'hi' }] });
    expect((await post(text)).status).toBe(200);
  });

  it('is done once where a cache may keep it', async () => {
    shim = await startShim([{ mode: 'embedded', profile: {} }], {
      workers: { cache: { tensorBytes: 64 << 20 } },
    });
    const same = photos(1);
    const answers = [await post(same), await post(same)];
    const [first, second] = answers.map(({ text }) => text.replace(/chatcmpl-[0-9a-f]+/, ''));
    expect(second).toBe(first);
    const metrics = await (await request(`${shim.url}/metrics`)).body.text();
    expect(metrics).toContain('render_tokens_count 2');
    expect(metrics).toContain('render_image_pixels_count 2');
    expect(metrics).toContain('render_seconds_count{route="chat",stage="image"} 2');
    expect(metrics).toContain('render_cache_hits_total{cache="tensors"} 1');
    expect(metrics).toContain('render_cache_misses_total{cache="tensors"} 1');
  });

  it('leaves the queue when its caller leaves', async () => {
    shim = await startShim([{ mode: 'embedded', profile: {} }], { workers: { image: 1 } });
    const first = post(photos(2));
    await until(() => shim.workers.queued.images === 1);
    const caller = new AbortController();
    const left = post(photos(6), caller.signal);
    await until(() => shim.workers.queued.images > 1);
    caller.abort();
    await expect(left).rejects.toThrow();
    await until(() => shim.workers.queued.images <= 1);
    expect((await first).status).toBe(200);
    await until(() => shim.workers.queued.images === 0);
    const metrics = await (await request(`${shim.url}/metrics`)).body.text();
    expect(metrics).toMatch(
      /render_requests_total\{route="chat",mode="none",model="qwen3-vl",code="499"\} 1/,
    );
    expect(metrics).toMatch(
      /render_requests_total\{route="chat",mode="embedded",model="qwen3-vl",code="200"\} 1/,
    );
  });
});
