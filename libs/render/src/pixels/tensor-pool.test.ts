import { readFileSync } from 'node:fs';
import { join } from 'node:path';

import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';

import { type GridThw } from '../image/geometry.ts';
import { RenderCache } from '../render-cache.ts';
import { buildTensor, type TensorJob } from './build-tensor.ts';
import { TensorPool, type TensorLimits } from './tensor-pool.ts';

const FILES = join(import.meta.dirname, '../testdata/images/files');
const OVERLOADED = { status: 503, type: 'ServiceUnavailableError' };

function job(file: string, grid: GridThw = [1, 2, 2]): TensorJob {
  return {
    file: readFileSync(join(FILES, file)),
    grid,
    pixels: 1024,
    background: [255, 255, 255],
    settings: {
      patchSize: 16,
      mergeSize: 2,
      dtype: 'uint8',
      normalisation: { mean: [0.5, 0.5, 0.5], std: [0.5, 0.5, 0.5] },
      resizeWeights: 'torch',
      kwargsLayout: 'map',
    },
  };
}

const small = job('s-32x32.png');
/** Its negative size breaks the thread. */
const breaking = job('s-32x32.png', [1, -2, 2]);

let pool: TensorPool;
const open = (limits: Partial<TensorLimits> = {}): void => {
  pool = new TensorPool({ threads: 1, ...limits });
};

beforeEach(() => {
  open();
});
afterEach(async () => {
  await pool.close();
});

describe('TensorPool', () => {
  it('builds what the calling thread would build, in order, and leaves the file alone', async () => {
    const jobs = [small, job('m-RGBA.webp'), job('m-exif6.jpg', [1, 4, 2]), small];
    const expected = await Promise.all(jobs.map((one) => buildTensor(one)));
    open({ threads: 2 });
    const built = await pool.build(jobs);
    expect(built.map((bytes) => Buffer.from(bytes))).toEqual(expected);
    expect(small.file.length).toBeGreaterThan(0);
  });

  it('passes the refusal of an image on and keeps working', async () => {
    await expect(pool.build([small, job('x-text.bin'), small])).rejects.toMatchObject({
      status: 400,
      type: 'BadRequestError',
      message: expect.stringContaining('Failed to load image'),
    });
    expect(await pool.build([small])).toHaveLength(1);
  });

  it('replaces a thread that breaks', async () => {
    await expect(pool.build([breaking])).rejects.toMatchObject({ status: 500 });
    expect(await pool.build([small])).toHaveLength(1);
  });

  it('stops an image that takes too long, and goes on with the next', async () => {
    open({ imageTimeoutMs: 1 });
    const large = job('s-4000x3000.jpg', [1, 188, 250]);
    const both = await Promise.allSettled([pool.build([large]), pool.build([large])]);
    for (const outcome of both) {
      expect(outcome).toMatchObject({ status: 'rejected', reason: { status: 504 } });
    }
  });

  it.each([
    { name: 'an answer that would be too large', limits: { answerBytes: 10_000 } },
    { name: 'images that need too much memory', limits: { memoryBytes: 20_000 } },
  ])('refuses $name, and says what to do', async ({ limits }) => {
    open(limits);
    await expect(pool.build([small, small])).rejects.toMatchObject({
      status: 413,
      message: expect.stringMatching(/lower max_pixels.*mm_payload/),
    });
    expect(await pool.build([small])).toHaveLength(1);
  });

  it.each([
    { name: 'images wait', limits: { waitingImages: 2 } },
    { name: 'bytes are pending', limits: { memoryBytes: 40_000 } },
  ])('refuses more when too many $name', async ({ limits }) => {
    open(limits);
    const running = pool.build([small, small]);
    await expect(pool.build([small, small])).rejects.toMatchObject(OVERLOADED);
    await running;
    expect(await pool.build([small])).toHaveLength(1);
  });

  it('builds an image once when it may remember it', async () => {
    pool = new TensorPool({ threads: 1 }, new RenderCache({ tensorBytes: 1 << 20 }));
    const known = { ...small, cacheKey: 'small' };
    const [first] = await pool.build([known]);
    const [second, other] = await pool.build([known, small]);
    expect(second).toBe(first);
    expect(other).toEqual(first);
    expect(other).not.toBe(first);
  });

  it('drops the waiting images of a caller that leaves, and lets the next caller go', async () => {
    const running = pool.build([small]);
    const caller = new AbortController();
    const left = pool.build([small, breaking], caller);
    const next = pool.build([small]);
    expect(pool.queued).toBe(3);
    caller.abort();
    await expect(left).rejects.toMatchObject({ name: 'AbortError' });
    expect(pool.queued).toBe(1);
    expect(await running).toHaveLength(1);
    expect(await next).toHaveLength(1);
    await expect(pool.build([small], caller)).rejects.toMatchObject({ name: 'AbortError' });
  });

  it('counts the bytes of an image that a thread works on for a caller that has left', async () => {
    open({ memoryBytes: 20_000 });
    const caller = new AbortController();
    const left = pool.build([small], caller);
    caller.abort();
    await expect(left).rejects.toMatchObject({ name: 'AbortError' });
    await expect(pool.build([small])).rejects.toMatchObject(OVERLOADED);
  });

  it('rejects what runs and what waits when it closes', async () => {
    const waiting = pool.build([small, small]);
    const closing = pool.close();
    await expect(waiting).rejects.toMatchObject(OVERLOADED);
    await closing;
    await expect(pool.build([small])).rejects.toMatchObject(OVERLOADED);
  });
});
