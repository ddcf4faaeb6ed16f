import { describe, expect, it } from '@jest/globals';
import { latencyOf } from './latency.ts';
import { patched, tuningOf, workerConfig } from './options.ts';
import { PrefixCache } from './prefix-cache.ts';
import { blockHashes, type Prompt, promptDigest } from './prompt.ts';
import { Slots } from './slots.ts';

describe('PrefixCache', () => {
  it('finds leading blocks only', () => {
    const cache = new PrefixCache(10);
    cache.insert(['a', 'b', 'c']);
    expect(cache.match(['a', 'b', 'x', 'c'])).toBe(2);
    expect(cache.match(['b'])).toBe(1);
  });

  it('evicts the least recently used when pins or inserts need room', () => {
    const cache = new PrefixCache(3);
    cache.insert(['a', 'b', 'c']);
    cache.insert(['a']);
    expect(cache.pin(1)).toBe(true);
    expect(cache.match(['a'])).toBe(1);
    expect(cache.match(['b'])).toBe(0);
    expect(cache.used).toBe(3);
  });

  it('refuses pins beyond its capacity', () => {
    const cache = new PrefixCache(2);
    expect(cache.pin(2)).toBe(true);
    expect(cache.pin(1)).toBe(false);
    cache.unpin(2);
    expect(cache.used).toBe(0);
  });
});

describe('hashes of a prompt', () => {
  const image = (hash: string): Prompt['images'][number] => ({
    hash,
    offset: 5,
    length: 4,
    gridThw: [1, 2, 8],
    size: undefined,
    isEncodable: true,
  });
  const prompt = (images: Prompt['images'] = [], count = 40): Prompt => ({
    tokenIds: Uint32Array.from({ length: count }, (_, index) => index),
    text: undefined,
    images,
  });
  const options = { blockSize: 4, salt: 'm' };

  it('cover whole blocks and chain', () => {
    const hashes = blockHashes(prompt([], 10), options);
    expect(hashes).toHaveLength(2);
    expect(blockHashes(prompt([], 8), options)).toEqual(hashes);
    expect(blockHashes(prompt([], 8), { ...options, salt: 'other' })[0]).not.toBe(hashes[0]);
  });

  it('differ from the first block that an image touches', () => {
    const one = blockHashes(prompt([image('a')]), options);
    const two = blockHashes(prompt([image('b')]), options);
    expect(two[0]).toBe(one[0]);
    expect(two[1]).not.toBe(one[1]);
    expect(two[9]).not.toBe(one[9]);
  });

  it('name a prompt by ids, media and places', () => {
    const digests = [
      prompt(),
      prompt([], 41),
      prompt([image('a')]),
      prompt([image('b')]),
      prompt([{ ...image('a'), offset: 6 }]),
    ].map(promptDigest);
    expect(new Set(digests).size).toBe(digests.length);
  });
});

describe('latencyOf', () => {
  const quiet = { running: 1, random: () => 0.5 };
  const tuning = (options: Record<string, unknown>): ReturnType<typeof tuningOf> =>
    tuningOf(workerConfig(options));

  it('is zero by default', () => {
    const latency = latencyOf(tuning({}), quiet);
    expect([
      latency.prefill(1000),
      latency.token(),
      latency.kvTransfer(1000),
      latency.encode(9),
    ]).toEqual([0, 0, 0, 0]);
  });

  it('per-token prefill replaces the fixed first-token time', () => {
    expect(latencyOf(tuning({ ttftMs: 70 }), quiet).prefill(100)).toBe(70);
    expect(
      latencyOf(
        tuning({ ttftMs: 70, prefillOverheadMs: 10, prefillPerTokenUs: 100 }),
        quiet,
      ).prefill(100),
    ).toBe(20);
  });

  it('grows with the load, except for the network, and is scaled as a whole', () => {
    const options = {
      itlMs: 10,
      kvTransferSetupMs: 10,
      loadFactor: 3,
      maxNumSeqs: 11,
      timeScale: 0.1,
    };
    const busy = latencyOf(tuning(options), { running: 11, random: () => 0.5 });
    expect(busy.token()).toBeCloseTo(3);
    expect(busy.kvTransfer(1)).toBeCloseTo(1);
  });

  it('an own value wins over the preset, jitter stays within 70 %', () => {
    expect(latencyOf(tuning({ profile: 'h100-8b', itlMs: 1 }), quiet).token()).toBe(1);
    const wild = latencyOf(tuning({ itlMs: 10, jitterPct: 100 }), {
      running: 1,
      random: () => 0.999999,
    });
    expect(wild.token()).toBeCloseTo(17);
  });
});

describe('Slots', () => {
  it('hands a slot over in order', async () => {
    const slots = new Slots(() => ({ maxNumSeqs: 1, maxWaiting: 5 }));
    const { signal } = new AbortController();
    const order: string[] = [];
    const leave = await slots.take(signal);
    const second = slots.take(signal).then((free) => {
      order.push('second');
      free();
    });
    const third = slots.take(signal).then((free) => {
      order.push('third');
      free();
    });
    expect(slots.waiting).toBe(2);
    leave();
    await Promise.all([second, third]);
    expect(order).toEqual(['second', 'third']);
    expect(slots.running).toBe(0);
  });

  it('who leaves the queue does not take a slot with him', async () => {
    const slots = new Slots(() => ({ maxNumSeqs: 1, maxWaiting: 5 }));
    const abort = new AbortController();
    const leave = await slots.take(new AbortController().signal);
    const waiting = slots.take(abort.signal);
    abort.abort(new Error('gone'));
    await expect(waiting).rejects.toThrow('gone');
    leave();
    expect(slots).toMatchObject({ running: 0, waiting: 0 });
  });
});

it('a patch changes what it names only', () => {
  const before = tuningOf(workerConfig({ itlMs: 5 }));
  expect(patched(before, { seed: 9 })).toEqual({ ...before, seed: 9 });
});
