import { type CacheMode } from './cache/cache-query.ts';
import { type DomainRule } from './domain-rules.ts';
import { type TransformRules } from './transform/rules.ts';

const mebibyte = 1024 * 1024;

/** Kind of media that a reference stands for; it picks the accepted types. */
export type Modality = 'image' | 'video' | 'audio';

/** One media item of a request: an `http:`, `https:` or `data:` URL and what it is said to be. */
export interface MediaRef {
  readonly url: string;
  readonly modality: Modality;
}

/** How the type is decided: `off` trusts the origin, `sniff` trusts the bytes, `strict` needs to know them. */
export type ContentCheck = 'off' | 'sniff' | 'strict';

/** Options of one call; a step passes its validated parameters (media-fetcher.md 2.3). */
export interface MediaFetchOptions {
  /** Whole time of one item: queue, DNS, connect, every redirect and the body. */
  readonly downloadTimeoutMs: number;
  /** Downloads of one call that run at the same time. */
  readonly maxConcurrentDownloads: number;
  /** Most bytes of one item, after content decoding. Never more than `globalMaxBufferedBytes`. */
  readonly maxDownloadBytes: number;
  /** Takes the place of `maxDownloadBytes` for the modalities that it names. */
  readonly maxModalityBytes?: Partial<Record<Modality, number>> | undefined;
  /** Most bytes of all items of one call together; an item named twice counts twice. */
  readonly maxTotalDownloadBytes: number;
  /** Opens the RFC 1918 ranges of IPv4, and nothing else. */
  readonly allowPrivateNetworks: boolean;
  /** Hosts that may be asked, from `parseAllowedDomains`; empty = any public host. */
  readonly allowedDomains: readonly DomainRule[];
  /** Hosts that may have a reserved name such as `images.svc`; `allowedDomains` when absent. */
  readonly excusedDomains?: readonly DomainRule[];
  readonly contentCheck: ContentCheck;
  /** Types accepted for modality `image`, lower case. */
  readonly allowedImageTypes: readonly string[];
  /** Types accepted in place of the built-in list, by modality, lower case; an empty list takes any. */
  readonly allowedTypes?: Partial<Record<Modality, readonly string[]>> | undefined;
  /** Decoded bytes of `data:` URIs of the same request that count towards the total; 0 when absent. */
  readonly inlineBytes?: number;
  /** Redirects of one item; that of the fetcher's limits when absent. */
  readonly maxRedirects?: number;
  /** Further attempts of one item; that of the fetcher's limits when absent. */
  readonly maxRetries?: number;
  /** Types that are accepted for modality `image` and converted to JPEG or WebP. */
  readonly transcodeImageTypes?: readonly string[];
  /** With `contentCheck: strict`: decodes every image once to see whether it is whole. */
  readonly decodesStrictly?: boolean;
  /** Makes images smaller; they stay as they came when absent. */
  readonly transform?: TransformRules;
  /** How a fetcher with a cache uses it; `default` when absent. */
  readonly cacheMode?: CacheMode;
}

/** Most bytes of one item of a modality. */
export function maxItemBytes(
  modality: Modality,
  options: Pick<MediaFetchOptions, 'maxDownloadBytes' | 'maxModalityBytes'>,
): number {
  return options.maxModalityBytes?.[modality] ?? options.maxDownloadBytes;
}

/** The defaults of `replace-media-urls`. */
export const defaultMediaFetchOptions: MediaFetchOptions = {
  downloadTimeoutMs: 10_000,
  maxConcurrentDownloads: 10,
  maxDownloadBytes: 10 * mebibyte,
  maxTotalDownloadBytes: 48 * mebibyte,
  allowPrivateNetworks: false,
  allowedDomains: [],
  contentCheck: 'sniff',
  allowedImageTypes: ['image/jpeg', 'image/png', 'image/gif', 'image/webp'],
};

/** Limits of the whole fetcher, fixed at construction (media-fetcher.md 4). */
export interface MediaLimits {
  /** TCP and TLS together, DNS included. */
  readonly connectTimeoutMs: number;
  readonly dnsTimeoutMs: number;
  /** From request to complete headers. Undici fires up to half a second late, so the deadline backs it up. */
  readonly headersTimeoutMs: number;
  /** Longest gap between two chunks of a body. */
  readonly idleTimeoutMs: number;
  /** Slowest acceptable body, over any `minRateWindowMs` after its first byte. */
  readonly minRateBytesPerSecond: number;
  readonly minRateWindowMs: number;
  readonly maxRedirects: number;
  /** Further attempts of one item after a failure that may pass, within its time. */
  readonly maxRetries: number;
  /** Pause before another attempt when the origin does not name one by `Retry-After`. */
  readonly retryPauseMs: number;
  /** In characters; for `http:` and `https:` URLs and `Location` headers. */
  readonly maxUrlLength: number;
  readonly maxResponseHeaderBytes: number;
  /** Downloads of the process that run at the same time. */
  readonly globalMaxDownloads: number;
  /** Downloads that wait for their turn; one more is refused as overload. */
  readonly globalMaxQueuedDownloads: number;
  /** Bytes held by all unfinished calls of the process. */
  readonly globalMaxBufferedBytes: number;
  /** A slow origin collapses under many parallel requests. */
  readonly maxConnectionsPerHost: number;
  readonly maxOrigins: number;
  readonly keepAliveMs: number;
  readonly keepAliveMaxMs: number;
  readonly maxImagePixels: number;
  /** In pixels. */
  readonly maxImageSide: number;
  /** Long side by short side; checked with `strict` and before a transform. */
  readonly maxAspectRatio: number;
  /** Pictures of an animation; checked when one is decoded. */
  readonly maxFrames: number;
  /** AVIF takes twenty times the memory of others to decode. */
  readonly maxAvifDecodePixels: number;
  /** Images decoded at the same time; 0 = one for each core, at least two. */
  readonly maxParallelTransforms: number;
  /** Of one decoding; not exact, the pixel limits are what bounds it. */
  readonly transformTimeoutMs: number;
}

/** The limits that hold when a configuration names none. */
export const defaultMediaLimits: MediaLimits = {
  connectTimeoutMs: 3_000,
  dnsTimeoutMs: 3_000,
  headersTimeoutMs: 5_000,
  idleTimeoutMs: 5_000,
  minRateBytesPerSecond: 1024,
  minRateWindowMs: 5_000,
  maxRedirects: 5,
  maxRetries: 1,
  retryPauseMs: 100,
  maxUrlLength: 8192,
  maxResponseHeaderBytes: 16 * 1024,
  globalMaxDownloads: 64,
  globalMaxQueuedDownloads: 512,
  globalMaxBufferedBytes: 256 * mebibyte,
  maxConnectionsPerHost: 16,
  maxOrigins: 1000,
  keepAliveMs: 4_000,
  keepAliveMaxMs: 60_000,
  maxImagePixels: 50_000_000,
  maxImageSide: 32_768,
  maxAspectRatio: 200,
  maxFrames: 256,
  maxAvifDecodePixels: 16_000_000,
  maxParallelTransforms: 0,
  transformTimeoutMs: 5_000,
};
