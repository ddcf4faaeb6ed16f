import { type CacheStatus, type CacheUse } from './cache/cache-query.ts';
import { type FreshnessRules } from './cache/freshness.ts';
import { MediaCache } from './cache/media-cache.ts';
import { MemoryTier, type MemoryTierLimits } from './cache/memory-tier.ts';
import { RedisTier, type RedisTierConfig, type RedisTierState } from './cache/redis-tier.ts';
import { type EndedDownload } from './ended-download.ts';
import { type EndedItem } from './ended-item.ts';
import { type MediaFetcherConfig } from './fetcher-config.ts';
import { MediaFetcher } from './media-fetcher.ts';

/** How media are kept between calls (media-fetcher.md 6). What is absent has its default there. */
export interface MediaCacheSettings {
  /** `redis://` or `rediss://`; memory alone when absent or empty. */
  readonly redisUrl?: string;
  readonly redis?: Omit<RedisTierConfig, 'url' | 'secret' | 'onState' | 'onAltered' | 'now'>;
  readonly memory?: Partial<MemoryTierLimits>;
  readonly rules?: Partial<FreshnessRules>;
  /** Keys the names of URLs; all who share a Redis need the same. */
  readonly secret?: string;
  /** Separates tenants that share a Redis. */
  readonly namespace?: string;
  /** Whether failures are remembered; true when absent. */
  readonly negative?: boolean;
}

/** A whole fetcher as plain values, for everybody who runs one. */
export interface MediaSettings extends Omit<MediaFetcherConfig, 'cache' | 'onDownload' | 'onItem'> {
  /** Without it every reference is downloaded. */
  readonly cache?: MediaCacheSettings | undefined;
}

/** Hears what a fetcher does, for metrics and logs. No method may throw. */
export interface MediaListener {
  /** Every download that was tried on the network, when it has ended. */
  onDownload?(download: EndedDownload): void;
  /** Every reference, when it has ended. */
  onItem?(item: EndedItem): void;
  /** Every reference that was looked for in the cache. */
  onCacheUse?(status: CacheStatus, tier: CacheUse['tier']): void;
  /** When Redis stops and starts to be used; the reason names no credentials. */
  onRedisState?(state: RedisTierState, reason: string): void;
  /** Media in Redis that somebody has altered: they are fetched again. */
  onCacheAltered?(reason: string): void;
}

/**
 * Builds a fetcher with its cache. Redis is connected to in the background: a server that is not there is
 * left out until it is. Throws an Error for a malformed CIDR or Redis URL. The owner calls `close`.
 */
export function createMediaFetcher(
  settings: MediaSettings = {},
  listener: MediaListener = {},
): MediaFetcher {
  const { cache, ...config } = settings;
  return new MediaFetcher({
    ...config,
    onDownload: (download) => listener.onDownload?.(download),
    onItem: (item) => listener.onItem?.(item),
    ...(cache && { cache: createCache(cache, listener) }),
  });
}

function createCache(
  { redisUrl = '', redis, memory, rules, secret, namespace, negative }: MediaCacheSettings,
  listener: MediaListener,
): MediaCache {
  return new MediaCache({
    ...(secret !== undefined && { secret }),
    ...(namespace !== undefined && { namespace }),
    ...(negative !== undefined && { negative }),
    ...(rules && { rules }),
    memory: new MemoryTier(memory),
    ...(redisUrl !== '' && {
      shared: new RedisTier({
        ...redis,
        url: redisUrl,
        ...(secret !== undefined && { secret }),
        onState: (state, reason) => listener.onRedisState?.(state, reason),
        onAltered: (reason) => listener.onCacheAltered?.(reason),
      }),
    }),
    onUse: (status, tier) => listener.onCacheUse?.(status, tier),
  });
}
