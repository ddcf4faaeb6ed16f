import { createHash } from 'node:crypto';

import { LRUCache } from 'lru-cache';

import { type Encoded } from './tokenizer/tokenizer-engine.ts';

/** How much a process remembers of what it rendered; 0 switches a cache off. */
export interface CacheLimits {
  /** Bytes of token ids. Default 64 MiB. */
  readonly tokenBytes?: number;
  /** Bytes of image tensors in base64. Default 0: one tensor takes megabytes. */
  readonly tensorBytes?: number;
}

/** How a cache is used. */
export interface CacheCounts {
  hits: number;
  misses: number;
}

const DEFAULT_TOKEN_BYTES = 64 << 20;
const TTL_MS = 600_000;
/** Shorter texts are tokenized faster than they are looked up. */
const MIN_CHARACTERS = 512;
/** What an entry takes besides its value. */
const OVERHEAD_BYTES = 256;
/** A pair of numbers on the heap. */
const OFFSET_BYTES = 64;

/** Remembers tokenized texts and image tensors. Both are pure functions of what the keys cover. */
export class RenderCache {
  readonly tokenCounts: CacheCounts = { hits: 0, misses: 0 };
  readonly tensorCounts: CacheCounts = { hits: 0, misses: 0 };
  private readonly tokens: LRUCache<string, Encoded> | undefined;
  private readonly blobs: LRUCache<string, Uint8Array> | undefined;

  constructor({ tokenBytes = DEFAULT_TOKEN_BYTES, tensorBytes = 0 }: CacheLimits = {}) {
    this.tokens = cacheOf(
      tokenBytes,
      ({ ids, offsets }) => ids.byteLength + (offsets?.length ?? 0) * OFFSET_BYTES,
    );
    this.blobs = cacheOf(tensorBytes, ({ byteLength }) => byteLength);
  }

  /** The tokens of a text, from `encode` when they are not known. `scope` tells tokenizers and their options apart. */
  async encoded(scope: string, text: string, encode: () => Promise<Encoded>): Promise<Encoded> {
    if (this.tokens === undefined || text.length < MIN_CHARACTERS) return encode();
    const key = `${scope} ${createHash('sha256').update(text).digest('base64')}`;
    const known = this.tokens.get(key);
    count(this.tokenCounts, known);
    if (known !== undefined) return known;
    const encoded = await encode();
    this.tokens.set(key, encoded);
    return encoded;
  }

  /** The tensor under a key, from `build` when it is not known; without a key it is always built. */
  async tensor(key: string | undefined, build: () => Promise<Uint8Array>): Promise<Uint8Array> {
    if (this.blobs === undefined || key === undefined) return build();
    const known = this.blobs.get(key);
    count(this.tensorCounts, known);
    if (known !== undefined) return known;
    const blob = await build();
    this.blobs.set(key, blob);
    return blob;
  }
}

function cacheOf<V extends object>(
  maxBytes: number,
  sizeOf: (value: V) => number,
): LRUCache<string, V> | undefined {
  if (maxBytes === 0) return undefined;
  return new LRUCache<string, V>({
    maxSize: maxBytes,
    sizeCalculation: (value) => sizeOf(value) + OVERHEAD_BYTES,
    ttl: TTL_MS,
  });
}

function count(counts: CacheCounts, known: unknown): void {
  if (known === undefined) counts.misses += 1;
  else counts.hits += 1;
}
