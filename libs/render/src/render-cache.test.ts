import { describe, expect, it } from '@jest/globals';

import { badRequest } from './errors.ts';
import { RenderCache, type Tensor } from './render-cache.ts';
import { type Encoded } from './tokenizer/tokenizer-engine.ts';

const long = 'a'.repeat(1000);
const encoded = (...ids: number[]): Encoded => ({ ids: Uint32Array.from(ids), offsets: undefined });

describe('RenderCache', () => {
  it('knows a long text again, under its own scope only', async () => {
    const cache = new RenderCache();
    const first = await cache.encoded('a', long, () => Promise.resolve(encoded(1)));
    expect(await cache.encoded('a', long, () => Promise.reject(new Error('again')))).toBe(first);
    expect(await cache.encoded('b', long, () => Promise.resolve(encoded(2)))).toEqual(encoded(2));
    expect(await cache.encoded('a', `${long}b`, () => Promise.resolve(encoded(3)))).toEqual(
      encoded(3),
    );
    expect(cache.tokenCounts).toEqual({ hits: 1, misses: 3 });
  });

  it('has a text made once that several want at the same time', async () => {
    const cache = new RenderCache();
    const first = Promise.withResolvers<Encoded>();
    const both = [
      cache.encoded('a', long, () => first.promise),
      cache.encoded('a', long, () => Promise.reject(new Error('twice'))),
    ];
    first.resolve(encoded(1));
    expect(await Promise.all(both)).toEqual([encoded(1), encoded(1)]);
  });

  it('shares the refusal of an image, but no other failure', async () => {
    const cache = new RenderCache();
    const outcomes = async (failure: Error): Promise<PromiseSettledResult<Uint8Array>[]> => {
      const first = Promise.withResolvers<Tensor>();
      const both = [
        cache.tensor('a', () => first.promise),
        cache.tensor('a', () => Promise.resolve(new Uint8Array(1))),
      ];
      first.reject(failure);
      return Promise.allSettled(both);
    };
    const refused = badRequest('broken');
    expect(await outcomes(refused)).toEqual([
      { status: 'rejected', reason: refused },
      { status: 'rejected', reason: refused },
    ]);
    const left = new Error('the caller has left');
    expect(await outcomes(left)).toEqual([
      { status: 'rejected', reason: left },
      { status: 'fulfilled', value: new Uint8Array(1) },
    ]);
  });

  it('does not look for short texts', async () => {
    const cache = new RenderCache();
    await cache.encoded('a', 'hi', () => Promise.resolve(encoded(1)));
    expect(await cache.encoded('a', 'hi', () => Promise.resolve(encoded(2)))).toEqual(encoded(2));
    expect(cache.tokenCounts).toEqual({ hits: 0, misses: 0 });
  });

  it('remembers no failure', async () => {
    const cache = new RenderCache();
    const fail = () => Promise.reject(new Error('busy'));
    await expect(cache.encoded('a', long, fail)).rejects.toThrow('busy');
    expect(await cache.encoded('a', long, () => Promise.resolve(encoded(1)))).toEqual(encoded(1));
  });

  it('forgets the oldest when it holds too many bytes', async () => {
    const cache = new RenderCache({ tensorBytes: 3_000 });
    const build = (size: number) => () => Promise.resolve(new Uint8Array(size));
    await cache.tensor('a', build(1_000));
    await cache.tensor('b', build(1_000));
    await cache.tensor('c', build(1_000));
    await cache.tensor('c', () => Promise.reject(new Error('known')));
    await expect(cache.tensor('a', () => Promise.reject(new Error('forgotten')))).rejects.toThrow(
      'forgotten',
    );
    expect(cache.tensorCounts).toEqual({ hits: 1, misses: 4 });
  });

  it('keeps nothing without a key or a size', async () => {
    const off = new RenderCache({ tokenBytes: 0 });
    const build = () => Promise.resolve(new Uint8Array(1));
    expect(await off.tensor('a', build)).not.toBe(await off.tensor('a', build));
    const on = new RenderCache({ tensorBytes: 3_000 });
    expect(await on.tensor(undefined, build)).not.toBe(await on.tensor(undefined, build));
  });
});
