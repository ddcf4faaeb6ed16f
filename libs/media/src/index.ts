export {
  type AddressGuard,
  type AddressPolicyConfig,
  createAddressGuard,
} from './address-guard.ts';
export {
  type CachedEntry,
  type CachedFailure,
  type CachedMedia,
  type CacheLock,
  type CacheTier,
  type SharedTier,
  type TierAnswer,
} from './cache/cache-tier.ts';
export { defaultFreshnessRules, type FreshnessRules } from './cache/freshness.ts';
export { type CacheMode, type CacheStatus, type CacheUse } from './cache/cache-query.ts';
export { MediaCache, type MediaCacheConfig } from './cache/media-cache.ts';
export { defaultMemoryTierLimits, MemoryTier, type MemoryTierLimits } from './cache/memory-tier.ts';
export { RedisTier, type RedisTierConfig, type RedisTierState } from './cache/redis-tier.ts';
export {
  createMediaFetcher,
  type MediaCacheSettings,
  type MediaListener,
  type MediaSettings,
} from './create-media-fetcher.ts';
export { type DataUri, type DataUriOptions, parseDataUri } from './data-uri.ts';
export { type DomainRule, matchesDomain, parseAllowedDomains } from './domain-rules.ts';
export { type OriginHeaders } from './download.ts';
export { type EndedDownload } from './ended-download.ts';
export { type EndedItem } from './ended-item.ts';
export { type MediaFetcherConfig } from './fetcher-config.ts';
export { type ProxyConfig } from './guarded-dispatcher.ts';
export { type ImageDetails, imageDetails } from './image-details.ts';
export { imageSize, type ImageSize } from './image-size.ts';
export {
  MediaError,
  type MediaErrorCode,
  mediaErrorCodes,
  type MediaErrorDetails,
  type MediaErrorKind,
} from './media-error.ts';
export { MediaFetcher } from './media-fetcher.ts';
export { type LineLog, MediaLog } from './media-log.ts';
export {
  type MediaFacts,
  type MediaOrigin,
  MediaResult,
  type MediaTiming,
  type MediaTransform,
} from './media-result.ts';
export {
  type ContentCheck,
  defaultMediaFetchOptions,
  defaultMediaLimits,
  type MediaFetchOptions,
  type MediaLimits,
  type MediaRef,
  type Modality,
} from './options.ts';
export { mediaSettings } from './media-settings.ts';
export { allowedTypes } from './media-type.ts';
export { redactUrl } from './redact.ts';
export { repairDataUri } from './repair-data-uri.ts';
export { type ReportedFault, reportedFault } from './reported-fault.ts';
export { type ResolveHost } from './resolve-host.ts';
export { sniffType } from './sniff-type.ts';
export { type TransformRules } from './transform/rules.ts';
