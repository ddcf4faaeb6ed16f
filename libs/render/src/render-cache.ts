import { createHash } from 'node:crypto';

import { LRUCache } from 'lru-cache';

import { RenderError } from './errors.ts';
import { type RenderNotes } from './render-notes.ts';
import { type Encoded } from './tokenizer/tokenizer-engine.ts';

/** Base64 text of an image's tensors as ASCII bytes, alone in its memory. */
export type Tensor = Uint8Array<ArrayBuffer>;

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

/**
 * Remembers tokenized texts and image tensors, and has equal ones made once that are wanted at the same time. Both are pure
 * functions of what the keys cover.
 */
export class RenderCache {
  readonly tokenCounts: CacheCounts = { hits: 0, misses: 0 };
  readonly tensorCounts: CacheCounts = { hits: 0, misses: 0 };
  private readonly tokens: LRUCache<string, Encoded> | undefined;
  private readonly blobs: LRUCache<string, Tensor> | undefined;
  private readonly shared = new WeakSet<Tensor>();
  private readonly encoding = new Map<string, Promise<Encoded>>();
  private readonly building = new Map<string, Promise<Tensor>>();

  constructor({ tokenBytes = DEFAULT_TOKEN_BYTES, tensorBytes = 0 }: CacheLimits = {}) {
    this.tokens = cacheOf(
      tokenBytes,
      ({ ids, offsets }) => ids.byteLength + (offsets?.length ?? 0) * OFFSET_BYTES,
    );
    this.blobs = cacheOf(tensorBytes, ({ byteLength }) => byteLength);
  }

  /** The tokens of a text, from `encode` when they are not known. `scope` tells tokenizers and their options apart. */
  async encoded(
    scope: string,
    text: string,
    encode: () => Promise<Encoded>,
    notes?: RenderNotes,
  ): Promise<Encoded> {
    if (this.tokens === undefined || text.length < MIN_CHARACTERS) return encode();
    const key = `${scope} ${createHash('sha256').update(text).digest('base64')}`;
    const known = this.tokens.get(key);
    count(this.tokenCounts, known, notes);
    if (known !== undefined) return known;
    const encoded = await once(this.encoding, key, encode);
    this.tokens.set(key, encoded);
    return encoded;
  }

  /** The tensor under a key, from `build` when it is not known; without a key it is always built. */
  async tensor(
    key: string | undefined,
    build: () => Promise<Tensor>,
    notes?: RenderNotes,
  ): Promise<Tensor> {
    if (key === undefined) return build();
    const known = this.blobs?.get(key);
    if (this.blobs !== undefined) count(this.tensorCounts, known, notes);
    if (known !== undefined) return known;
    const isJoined = this.building.has(key);
    const blob = await once(this.building, key, build);
    if (isJoined || this.blobs !== undefined) this.shared.add(blob);
    this.blobs?.set(key, blob);
    return blob;
  }

  /** True for a tensor that others read too. */
  isShared(blob: Tensor): boolean {
    return this.shared.has(blob);
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

/**
 * Work for a key that others may be waiting for already. Their refusal of the input is shared; where they fail otherwise,
 * perhaps because their caller has left, the next one has it done again.
 */
async function once<V>(
  running: Map<string, Promise<V>>,
  key: string,
  work: () => Promise<V>,
): Promise<V> {
  const theirs = running.get(key);
  if (theirs !== undefined) {
    try {
      return await theirs;
    } catch (error) {
      if (error instanceof RenderError && error.status < 500) throw error;
      return once(running, key, work);
    }
  }
  const own = work();
  running.set(key, own);
  try {
    return await own;
  } finally {
    running.delete(key);
  }
}

function count(counts: CacheCounts, known: unknown, notes: RenderNotes | undefined): void {
  notes?.lookedUp(known !== undefined);
  if (known === undefined) counts.misses += 1;
  else counts.hits += 1;
}
