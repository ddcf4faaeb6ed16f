import {
  type MediaError,
  type MediaFetcher,
  type Modality,
  type RedisTierState,
} from '@llm-d/media';
import { type Admission } from '@llm-d/service';
import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client';
import { type DigestedMedia } from './describe-media.ts';

const secondsBuckets = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];
const bytesBuckets = [1024, 16_384, 65_536, 262_144, 1_048_576, 4_194_304, 16_777_216, 67_108_864];

/** What the address and URL rules refuse. */
const blockedCodes = new Set<string>([
  ...['media_address_blocked', 'media_host_not_allowed', 'media_port_not_allowed'],
  ...['media_redirect_blocked', 'media_scheme_not_allowed', 'media_credentials_not_allowed'],
]);

const redisStates: readonly RedisTierState[] = ['ok', 'full', 'down'];

/** The metrics of media-fetcher.md 11. No label holds a host or a URL. */
export class FetcherMetrics {
  readonly registry = new Registry();
  readonly #fetches = this.#counter(
    'media_fetch_total',
    'Items that ended, by code; ok when whole.',
    ['modality', 'code'],
  );
  readonly #seconds = this.#histogram(
    'media_fetch_seconds',
    'Time of items that came whole, by phase.',
    secondsBuckets,
    ['phase'],
  );
  readonly #bytes = this.#histogram('media_bytes', 'Bytes of items.', bytesBuckets, ['modality']);
  readonly #redirects = this.#histogram(
    'media_redirects',
    'Redirects of downloaded items.',
    [0, 1, 2, 3, 4, 5],
    [],
  );
  readonly #mismatches = this.#counter(
    'media_content_mismatch_total',
    'Items that are not what their origin said, by the types of both.',
    ['declared', 'sniffed'],
  );
  readonly #blocked = this.#counter('media_blocked_total', 'Items refused by a rule.', ['reason']);
  readonly #cache = this.#counter('media_cache_total', 'References looked for in the cache.', [
    'tier',
    'status',
  ]);
  #redisState: RedisTierState | undefined;

  /** `hasProcess` adds the metrics of the process, which are the same in every registry. */
  constructor({ hasProcess = false } = {}) {
    if (hasProcess) collectDefaultMetrics({ register: this.registry });
  }

  /** Shows what the fetcher and its edge have in hand. */
  watch(fetcher: MediaFetcher, admission: Admission): void {
    const gauge = (name: string, help: string, value: () => number): void => {
      const { registry } = this;
      new Gauge({
        name,
        help,
        registers: [registry],
        collect() {
          this.set(value());
        },
      });
    };
    gauge('media_inflight', 'Downloads that run.', () => fetcher.stats().activeDownloads);
    gauge('media_queue_depth', 'Downloads that wait.', () => fetcher.stats().queuedDownloads);
    gauge('media_buffered_bytes', 'Bytes of unfinished downloads.', () => {
      return fetcher.stats().bufferedBytes;
    });
    gauge('media_singleflight_waiters', 'Callers that wait for a download of another.', () => {
      return fetcher.coalescedWaiters;
    });
    gauge('media_requests_running', 'Requests that are served.', () => admission.running);
    gauge('media_requests_queued', 'Requests that wait for their turn.', () => admission.queued);
    gauge(
      'media_held_bytes',
      'Bytes of request bodies and answers.',
      () => admission.bodyBytesHeld,
    );
    new Counter({
      name: 'media_requests_refused_total',
      help: 'Requests that were turned away.',
      labelNames: ['reason'],
      registers: [this.registry],
      collect() {
        this.reset();
        for (const [reason, count] of Object.entries(admission.refused)) {
          this.inc({ reason }, count);
        }
      },
    });
  }

  itemFetched({ media, totalMs }: DigestedMedia, modality: Modality): void {
    const { origin, timing, declaredType } = media.facts;
    this.#fetches.inc({ modality, code: 'ok' });
    this.#bytes.observe({ modality }, media.byteLength);
    this.#seconds.observe({ phase: 'total' }, totalMs / 1000);
    if (timing) {
      this.#seconds.observe({ phase: 'queue' }, timing.queueMs / 1000);
      this.#seconds.observe({ phase: 'first_byte' }, timing.firstByteMs / 1000);
      this.#seconds.observe({ phase: 'download' }, timing.downloadMs / 1000);
      this.#redirects.observe(origin?.redirects ?? 0);
    }
    if (timing && declaredType !== undefined && declaredType !== media.contentType) {
      // An origin may name any type at all.
      const declared = knownTypes.has(declaredType) ? declaredType : 'other';
      this.#mismatches.inc({ declared, sniffed: media.contentType });
    }
  }

  itemFailed({ code, causeCode }: MediaError, modality: Modality): void {
    this.#fetches.inc({ modality, code });
    if (blockedCodes.has(code)) this.#blocked.inc({ reason: causeCode ?? code });
  }

  cacheUsed(status: string, tier: string): void {
    this.#cache.inc({ status, tier });
  }

  redisIs(state: RedisTierState): void {
    if (this.#redisState === undefined) this.#watchRedis();
    this.#redisState = state;
  }

  #watchRedis(): void {
    const state = (): RedisTierState | undefined => this.#redisState;
    new Gauge({
      name: 'media_redis_state',
      help: '1 at the state of Redis.',
      labelNames: ['state'],
      registers: [this.registry],
      collect() {
        for (const one of redisStates) this.set({ state: one }, one === state() ? 1 : 0);
      },
    });
  }

  #counter<const Label extends string>(name: string, help: string, labelNames: readonly Label[]) {
    return new Counter({ name, help, labelNames, registers: [this.registry] });
  }

  #histogram<const Label extends string>(
    name: string,
    help: string,
    buckets: number[],
    labelNames: readonly Label[],
  ) {
    return new Histogram({ name, help, buckets, labelNames, registers: [this.registry] });
  }
}

const knownTypes = new Set([
  ...['image/jpeg', 'image/png', 'image/gif', 'image/webp', 'image/avif', 'image/svg+xml'],
  ...['application/octet-stream', 'text/plain', 'text/html', 'application/json'],
  ...['video/mp4', 'video/webm', 'audio/mpeg', 'audio/wav', 'audio/ogg', 'audio/mp4'],
]);
