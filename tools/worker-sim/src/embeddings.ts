import { randomBytes } from 'node:crypto';
import { canonicalText, exactNumber, type JsonObject } from './exact-json.ts';
import { type SidePeer } from './kv-leases.ts';
import { type PromptImage } from './prompt.ts';

/** How a pull of an embedding ended; everything but `ok` is a refusal. */
export type EmbeddingPull = 'ok' | 'unknown' | 'altered';

interface Embedding {
  descriptor: JsonObject;
  encoded: number;
  pulls: number;
  timer: NodeJS.Timeout | undefined;
}

/** Embeddings kept at once; the oldest goes first. */
const maxEmbeddings = 1024;

/** What `/admin/state` shows of the encoder outputs. */
export interface EmbeddingState {
  held: { hash: string; encoded: number; pulls: number }[];
  /** Dropped after the time to live without one pull: an encode leg whose result nobody used. */
  expiredUnpulled: number;
  expired: number;
}

/**
 * Encoder outputs by media hash. As in a real pod the same image encoded again gives the same
 * descriptor while the output lives, and several prefills may pull it.
 */
export class Embeddings {
  readonly #entries = new Map<string, Embedding>();
  readonly #ttlMs: () => number;
  #expired = 0;
  #expiredUnpulled = 0;

  constructor(ttlMs: () => number) {
    this.#ttlMs = ttlMs;
  }

  /** Stores the output of one encode call and returns its descriptor (engine-verified.md 6, NIXL form). */
  encode(image: PromptImage, peer: SidePeer, width: number): JsonObject {
    const known = this.#entries.get(image.hash);
    const entry: Embedding = known ?? {
      descriptor: {
        item_indices: [0],
        metadata: { image_grid_thw: image.gridThw },
        peer_host: peer.host,
        peer_port: peer.port,
        size_bytes: image.length * width * 2,
        shape: [image.length, width],
        // Not vLLM's: tells apart what two pods made of one image, and catches doubles.
        nonce: exactNumber(String((randomBytes(8).readBigUInt64BE() >> 1n) | (1n << 60n) | 1n)),
      },
      encoded: 0,
      pulls: 0,
      timer: undefined,
    };
    entry.encoded += 1;
    clearTimeout(entry.timer);
    entry.timer = setTimeout(() => this.#drop(image.hash, entry), this.#ttlMs());
    entry.timer.unref();
    this.#entries.delete(image.hash);
    this.#entries.set(image.hash, entry);
    this.#limit();
    return entry.descriptor;
  }

  /** Hands the output out to a prefill pod that names it exactly as it was answered. */
  pull(hash: string, descriptor: JsonObject): EmbeddingPull {
    const entry = this.#entries.get(hash);
    if (!entry) return 'unknown';
    if (canonicalText(entry.descriptor) !== canonicalText(descriptor)) return 'altered';
    entry.pulls += 1;
    return 'ok';
  }

  /** What is held and what went unused. */
  state(): EmbeddingState {
    return {
      held: [...this.#entries].map(([hash, { encoded, pulls }]) => ({ hash, encoded, pulls })),
      expired: this.#expired,
      expiredUnpulled: this.#expiredUnpulled,
    };
  }

  /** Forgets all outputs and counters. */
  reset(): void {
    for (const { timer } of this.#entries.values()) clearTimeout(timer);
    this.#entries.clear();
    this.#expired = 0;
    this.#expiredUnpulled = 0;
  }

  #drop(hash: string, entry: Embedding): void {
    clearTimeout(entry.timer);
    this.#entries.delete(hash);
    this.#expired += 1;
    if (entry.pulls === 0) this.#expiredUnpulled += 1;
  }

  #limit(): void {
    for (const [hash, entry] of this.#entries) {
      if (this.#entries.size <= maxEmbeddings) return;
      this.#drop(hash, entry);
    }
  }
}
