import { type MediaResult } from '../media-result.ts';
import { type CachedMedia } from './cache-tier.ts';
import { type Hop } from './freshness.ts';

/** How a call uses the cache; `reload` downloads in any case and stores what came. */
export type CacheMode = 'default' | 'reload' | 'no-store' | 'only-if-cached';

/** What the cache did for one reference. */
export type CacheStatus =
  'hit' | 'miss' | 'revalidated' | 'stale' | 'coalesced' | 'bypass' | 'negative';

/** What the cache did for one reference, and with which copy. */
export interface CacheUse {
  readonly status: CacheStatus;
  /** Where the copy lay; `none` when the origin was asked. */
  readonly tier: 'memory' | 'redis' | 'none';
  /** Since the origin sent or confirmed it, in milliseconds. */
  readonly ageMs: number;
  /** Until it has to be confirmed again, in milliseconds; 0 when it is not stored. */
  readonly ttlMs: number;
}

/** What the download of a query is told, and what it tells. */
export interface CacheLoad {
  /** Media that the origin may confirm with 304; the download asks with their validators. */
  readonly stored: CachedMedia | undefined;
  /** Set by the download when the body is whole. */
  answer?: {
    readonly hops: readonly Hop[];
    readonly isNotModified: boolean;
    readonly contentTypeHeader: string | undefined;
    readonly isCloseDelimited: boolean;
  };
}

/** One reference looked for in the cache. */
export interface CacheQuery {
  /** From `UrlNames`. */
  readonly key: string;
  /** Text of everything else that decides the result: equal queries share one download. */
  readonly limits: string;
  readonly mode: CacheMode;
  readonly timeoutMs: number;
  /** Judges stored bytes by the rules of the call; throws MediaError. */
  readonly judge: (media: CachedMedia) => MediaResult;
  /** Downloads and judges. */
  readonly load: (load: CacheLoad, signal: AbortSignal) => Promise<MediaResult>;
}
