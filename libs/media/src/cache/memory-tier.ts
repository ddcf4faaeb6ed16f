import {
  type CachedFailure,
  type CachedMedia,
  type CacheTier,
  nothing,
  type TierAnswer,
} from './cache-tier.ts';

/** Bounds of the tier (media-fetcher.md 6.1). */
export interface MemoryTierLimits {
  readonly maxBytes: number;
  /** Larger media are left out: one of them would push out many small ones. */
  readonly maxValueBytes: number;
  /** Longest time from the download to the last use without asking the shared tier. */
  readonly maxAgeMs: number;
}

/** The bounds that hold when a configuration names none. */
export const defaultMemoryTierLimits: MemoryTierLimits = {
  maxBytes: 64 * 1024 * 1024,
  maxValueBytes: 2 * 1024 * 1024,
  maxAgeMs: 60_000,
};

interface Slot {
  media: CachedMedia | undefined;
  failure: CachedFailure | undefined;
  /** Since the epoch in milliseconds; for the media. */
  keepUntil: number;
}

/** What a slot costs beside its bytes, so that failures and small images are bounded too. */
const slotBytes = 1024;

/** The cache of one process: least recently used first out, bounded in bytes. */
export class MemoryTier implements CacheTier {
  readonly name = 'memory';
  readonly #limits: MemoryTierLimits;
  readonly #now: () => number;
  /** In order of use, the oldest first. */
  readonly #slots = new Map<string, Slot>();
  #bytes = 0;

  constructor(limits: Partial<MemoryTierLimits> = {}, now: () => number = Date.now) {
    this.#limits = { ...defaultMemoryTierLimits, ...limits };
    this.#now = now;
  }

  /** Bytes held, overhead included. */
  get bytes(): number {
    return this.#bytes;
  }

  read(key: string): Promise<TierAnswer> {
    const slot = this.#slots.get(key);
    if (slot === undefined) {
      return Promise.resolve(nothing);
    }
    const now = this.#now();
    const media = now < slot.keepUntil ? slot.media : undefined;
    const failure =
      slot.failure !== undefined && now < slot.failure.until ? slot.failure : undefined;
    this.#put(key, media, failure, slot.keepUntil);
    return Promise.resolve({ media, failure, isUnavailable: false });
  }

  write(key: string, media: CachedMedia): Promise<void> {
    const now = this.#now();
    const { maxValueBytes, maxAgeMs } = this.#limits;
    const isKept = media.bytes.length <= maxValueBytes && now < media.entry.keepUntil;
    const keepUntil = Math.min(media.entry.keepUntil, now + maxAgeMs);
    this.#put(key, isKept ? media : undefined, undefined, keepUntil);
    return Promise.resolve();
  }

  writeFailure(key: string, failure: CachedFailure): Promise<void> {
    const slot = this.#slots.get(key);
    this.#put(key, slot?.media, failure, slot?.keepUntil ?? 0);
    return Promise.resolve();
  }

  readBytes(digest: string): Promise<Buffer | undefined> {
    const now = this.#now();
    for (const { media, keepUntil } of this.#slots.values()) {
      if (media?.entry.digest === digest && now < keepUntil) {
        return Promise.resolve(media.bytes);
      }
    }
    return Promise.resolve(undefined);
  }

  delete(key: string): Promise<void> {
    this.#put(key, undefined, undefined, 0);
    return Promise.resolve();
  }

  /** Makes this the newest slot, or none when there is nothing to keep. */
  #put(
    key: string,
    media: CachedMedia | undefined,
    failure: CachedFailure | undefined,
    keepUntil: number,
  ): void {
    this.#drop(key);
    if (media === undefined && failure === undefined) {
      return;
    }
    this.#slots.set(key, { media, failure, keepUntil });
    this.#bytes += slotBytes + (media?.bytes.length ?? 0);
    for (const oldest of this.#slots.keys()) {
      if (this.#bytes <= this.#limits.maxBytes) {
        return;
      }
      this.#drop(oldest);
    }
  }

  #drop(key: string): void {
    const slot = this.#slots.get(key);
    if (slot !== undefined) {
      this.#slots.delete(key);
      this.#bytes -= slotBytes + (slot.media?.bytes.length ?? 0);
    }
  }
}
