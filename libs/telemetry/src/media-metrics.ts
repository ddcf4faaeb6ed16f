import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import { bytesBuckets, countBuckets, secondsBuckets } from './buckets.ts';

/** How one media reference ended; an `EndedItem` of the fetcher fits. */
export interface CountedMediaItem {
  readonly ref: { readonly modality: string };
  readonly durationMs: number;
  readonly error: { readonly code: string; readonly causeCode?: string | undefined } | undefined;
  readonly result:
    | {
        readonly byteLength: number;
        readonly contentType: string;
        readonly facts: {
          readonly declaredType?: string | undefined;
          readonly origin?: { readonly redirects: number } | undefined;
          readonly timing?:
            Readonly<Record<'queueMs' | 'firstByteMs' | 'downloadMs', number>> | undefined;
          readonly transform?:
            | {
                readonly result: string;
                readonly durationMs: number;
                readonly sourceBytes: number;
              }
            | undefined;
        };
      }
    | undefined;
}

/** What is looked at when the metrics are asked for; a fetcher fits. */
export interface WatchedMedia {
  readonly coalescedWaiters: number;
  stats(): {
    readonly activeDownloads: number;
    readonly queuedDownloads: number;
    readonly bufferedBytes: number;
  };
}

/** Downloads end in milliseconds, not in the minutes that generations take. */
const shortSeconds = [0.0005, 0.001, 0.0025, ...secondsBuckets.filter((bound) => bound <= 60)];

const redisStates = ['ok', 'full', 'down'] as const;

/** Free text of origins must not become labels. */
const knownTypes = new Set([
  ...['image/jpeg', 'image/png', 'image/gif', 'image/webp', 'image/avif', 'image/heic'],
  ...['image/bmp', 'image/tiff', 'image/svg+xml', 'text/html', 'text/plain', 'application/json'],
  ...['video/mp4', 'video/webm', 'video/quicktime', 'audio/wav', 'audio/mpeg', 'audio/ogg'],
  ...['audio/flac', 'audio/mp4', 'audio/webm'],
]);
const typeLabel = (type: string): string => (knownTypes.has(type) ? type : 'other');

/** Failures of the address guard and the rules for URLs; the label is what follows the prefix. */
const blocking = new Set(
  ['url_invalid', 'url_too_long', 'scheme_not_allowed', 'credentials_not_allowed'].concat([
    'port_not_allowed',
    'host_not_allowed',
    'address_blocked',
    'redirect_blocked',
  ]),
);

/**
 * The metrics of a media fetcher (media-fetcher.md 11), for the process that runs one. No label names a host or
 * a URL. Registers them; may be made once for a registry.
 */
export class MediaMetrics {
  #redisState: string | undefined;
  readonly #fetches: Counter<'modality' | 'code'>;
  readonly #seconds: Histogram<'phase'>;
  readonly #bytes: Histogram<'modality' | 'kind'>;
  readonly #cache: Counter<'tier' | 'status'>;
  readonly #altered: Counter;
  readonly #blocked: Counter<'reason'>;
  readonly #redirects: Histogram;
  readonly #transforms: Counter<'result'>;
  readonly #transformSeconds: Histogram;
  readonly #mismatches: Counter<'declared' | 'sniffed'>;

  /** `watched` is asked for the fetcher when the metrics are; undefined as long as there is none. */
  constructor(registry: Registry, watched: () => WatchedMedia | undefined) {
    const registers = [registry];
    this.#fetches = new Counter({
      ...{ name: 'media_fetch_total', help: 'Media references that ended.', registers },
      labelNames: ['modality', 'code'],
    });
    this.#seconds = new Histogram({
      ...{ name: 'media_fetch_seconds', help: 'Time of media references by phase.', registers },
      labelNames: ['phase'],
      buckets: shortSeconds,
    });
    this.#bytes = new Histogram({
      ...{ name: 'media_bytes', help: 'Bytes of media items.', registers },
      labelNames: ['modality', 'kind'],
      buckets: bytesBuckets,
    });
    this.#cache = new Counter({
      ...{ name: 'media_cache_total', help: 'Looks into the media cache.', registers },
      labelNames: ['tier', 'status'],
    });
    this.#altered = new Counter({
      name: 'media_cache_altered_total',
      help: 'Cached media that were not what had been written; fetched again.',
      registers,
    });
    this.#redisGauge(registers);
    this.#blocked = new Counter({
      ...{ name: 'media_blocked_total', help: 'Media URLs that were refused.', registers },
      labelNames: ['reason'],
    });
    this.#redirects = new Histogram({
      ...{ name: 'media_redirects', help: 'Redirects of one media item.', registers },
      buckets: countBuckets.filter((bound) => bound <= 16),
    });
    const gauge = (name: string, help: string, read: (media: WatchedMedia) => number): void => {
      new Gauge({
        ...{ name, help, registers },
        collect() {
          const media = watched();
          this.set(media === undefined ? 0 : read(media));
        },
      });
    };
    gauge('media_inflight', 'Media downloads that run.', (media) => media.stats().activeDownloads);
    gauge(
      'media_queue_depth',
      'Media downloads that wait for their turn.',
      (media) => media.stats().queuedDownloads,
    );
    gauge(
      'media_buffered_bytes',
      'Bytes of media that unfinished requests hold.',
      (media) => media.stats().bufferedBytes,
    );
    this.#transforms = new Counter({
      ...{ name: 'media_transform_total', help: 'Images that a transform looked at.', registers },
      labelNames: ['result'],
    });
    this.#transformSeconds = new Histogram({
      ...{ name: 'media_transform_seconds', help: 'Time of image transforms.', registers },
      buckets: shortSeconds,
    });
    this.#mismatches = new Counter({
      name: 'media_content_mismatch_total',
      help: 'Media whose bytes are not what the origin declared.',
      registers,
      labelNames: ['declared', 'sniffed'],
    });
    gauge(
      'media_singleflight_waiters',
      'Requests that wait for a download of another.',
      (media) => media.coalescedWaiters,
    );
  }

  /** A media reference ended, well or not. */
  itemEnded({ ref: { modality }, durationMs, result, error }: CountedMediaItem): void {
    this.#fetches.inc({ modality, code: error?.code ?? 'ok' });
    this.#seconds.observe({ phase: 'total' }, durationMs / 1_000);
    const reason = (error?.causeCode ?? error?.code ?? '').replace(/^media_/, '');
    if (blocking.has(reason)) this.#blocked.inc({ reason });
    if (!result) return;
    const { declaredType, origin, timing, transform } = result.facts;
    this.#bytes.observe({ modality, kind: 'source' }, transform?.sourceBytes ?? result.byteLength);
    this.#bytes.observe({ modality, kind: 'output' }, result.byteLength);
    if (origin) this.#redirects.observe(origin.redirects);
    if (timing) {
      this.#seconds.observe({ phase: 'queue' }, timing.queueMs / 1_000);
      this.#seconds.observe({ phase: 'first_byte' }, timing.firstByteMs / 1_000);
      this.#seconds.observe({ phase: 'download' }, timing.downloadMs / 1_000);
    }
    if (transform) {
      this.#seconds.observe({ phase: 'transform' }, transform.durationMs / 1_000);
      this.#transformSeconds.observe(transform.durationMs / 1_000);
      this.#transforms.inc({ result: transform.result });
    } else if (declaredType !== undefined && declaredType !== result.contentType) {
      this.#mismatches.inc({
        declared: typeLabel(declaredType),
        sniffed: typeLabel(result.contentType),
      });
    }
  }

  /** The cache was looked into for a reference. */
  cacheUsed(status: string, tier: string): void {
    this.#cache.inc({ tier, status });
  }

  /** Somebody has altered media in the cache. */
  cacheAltered(): void {
    this.#altered.inc();
  }

  /** Redis is used in this way from here on. */
  redisBecame(state: string): void {
    this.#redisState = state;
  }

  #redisGauge(registers: Registry[]): void {
    const current = (): string | undefined => this.#redisState;
    new Gauge({
      name: 'media_redis_state',
      help: 'How the Redis of the media cache is used; 1 at the present state.',
      registers,
      labelNames: ['state'],
      collect() {
        const state = current();
        if (state === undefined) return;
        for (const one of redisStates) this.set({ state: one }, one === state ? 1 : 0);
      },
    });
  }
}
