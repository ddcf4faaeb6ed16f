import { type MediaErrorCode, type MediaErrorKind } from '../media-error.ts';
import { type Lifetime } from './freshness.ts';

/** What the cache knows of the bytes behind a URL, as the origin described them. */
export interface CachedEntry extends Lifetime {
  /** SHA-256 of the bytes in hex. */
  readonly digest: string;
  /** The origin's `Content-Type` as it came; every use judges the bytes anew by its own rules. */
  readonly contentTypeHeader: string | undefined;
  readonly isCloseDelimited: boolean;
  readonly etag: string | undefined;
  readonly lastModified: string | undefined;
  /** Since the epoch in milliseconds. */
  readonly fetchedAt: number;
}

/** Stored media. The bytes may be shared: do not change them. */
export interface CachedMedia {
  readonly entry: CachedEntry;
  readonly bytes: Buffer;
}

/** A failure that is worth remembering; nothing in it names the URL. */
export interface CachedFailure {
  readonly code: MediaErrorCode;
  readonly safeMessage: string;
  readonly kind: MediaErrorKind;
  readonly stepStatus: number;
  readonly retryable: boolean;
  readonly originStatus: number | undefined;
  readonly limit: number | undefined;
  readonly actual: number | undefined;
  /** Set when the failure depends on these limits of the call; others have to try for themselves. */
  readonly limits: string | undefined;
  /** Since the epoch in milliseconds. */
  readonly until: number;
}

/** What a tier has under one key. */
export interface TierAnswer {
  readonly media: CachedMedia | undefined;
  readonly failure: CachedFailure | undefined;
  /** Whether the tier could not be asked; it then knows nothing. */
  readonly isUnavailable: boolean;
}

/** The answer of a tier that has nothing. */
export const nothing: TierAnswer = {
  media: undefined,
  failure: undefined,
  isUnavailable: false,
};

/** One store of the cache. No method rejects: what cannot be read is missing, what cannot be written is left. */
export interface CacheTier {
  readonly name: 'memory' | 'redis';
  /** What is known under the key and has not passed its time. */
  read(key: string): Promise<TierAnswer>;
  /** Keeps media until `keepUntil` and forgets the failure; leaves out what is larger than its limit. */
  write(key: string, media: CachedMedia): Promise<void>;
  /** Keeps a failure until its time; media under the key stay. */
  writeFailure(key: string, failure: CachedFailure): Promise<void>;
  /** Bytes by their digest, whatever URL they came from; undefined when they are not here. */
  readBytes(digest: string): Promise<Buffer | undefined>;
  /** Forgets what is under the key. */
  delete(key: string): Promise<void>;
}

/** The right to download for all processes, held until it is released or its time is over. */
export interface CacheLock {
  release(): Promise<void>;
}

/** A tier that several processes share. */
export interface SharedTier extends CacheTier {
  /** The lock, `'held'` when another has it, or undefined when the tier cannot tell. */
  lock(key: string, ttlMs: number): Promise<CacheLock | 'held' | undefined>;
  /** Whether somebody holds the lock; false when the tier cannot tell. */
  isLocked(key: string): Promise<boolean>;
  /** Ends the connections. */
  close(): Promise<void>;
}
