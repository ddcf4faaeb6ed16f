import { MediaError } from '../media-error.ts';
import { type MediaResult } from '../media-result.ts';
import { toMediaError } from '../transport-error.ts';
import { awaitOther } from './await-other.ts';
import { type CacheLoad, type CacheQuery, type CacheStatus, type CacheUse } from './cache-query.ts';
import {
  type CachedEntry,
  type CachedMedia,
  type CacheLock,
  type CacheTier,
  type SharedTier,
  type TierAnswer,
} from './cache-tier.ts';
import { defaultFreshnessRules, type FreshnessRules } from './freshness.ts';
import { digestOf, UrlNames } from './keys.ts';
import { failureAgain, rememberedFailure } from './negative.ts';
import { newEntry } from './new-entry.ts';
import { SingleFlight } from './single-flight.ts';

/** Construction of a `MediaCache`. */
export interface MediaCacheConfig {
  /** Keys the names of URLs; without one, whoever reads the store can test a guess of a URL. */
  readonly secret?: string;
  /** Separates tenants that share a store. */
  readonly namespace?: string;
  readonly rules?: Partial<FreshnessRules>;
  /** Whether failures are remembered; true when absent. */
  readonly negative?: boolean;
  readonly memory: CacheTier;
  /** Asked after memory, and the place of the locks between processes. The cache closes it. */
  readonly shared?: SharedTier;
  /** Told once per reference. Must not throw. */
  readonly onUse?: (status: CacheStatus, tier: CacheUse['tier']) => void;
  readonly now?: () => number;
}

/** A lock outlives the longest download by this, so that only a process that died loses it. */
const lockSlackMs = 2_000;

const hasValidator = ({ etag, lastModified }: CachedEntry): boolean =>
  etag !== undefined || lastModified !== undefined;

/**
 * Finds media in its tiers, or downloads each of them once for all who wait in this process and, with a shared
 * tier, in all processes (media-fetcher.md 6). A tier that fails is left out; it never fails a call.
 */
export class MediaCache {
  /** How the cache calls URLs. */
  readonly names: UrlNames;
  readonly #config: MediaCacheConfig;
  readonly #rules: FreshnessRules;
  readonly #now: () => number;
  readonly #tiers: readonly CacheTier[];
  readonly #flights = new SingleFlight<MediaResult>();
  readonly #refreshing = new Set<string>();
  readonly #background = new Set<Promise<unknown>>();
  readonly #closing = new AbortController();

  constructor(config: MediaCacheConfig) {
    this.names = new UrlNames(config.secret ?? '', config.namespace ?? '');
    this.#config = config;
    this.#rules = { ...defaultFreshnessRules, ...config.rules };
    this.#now = config.now ?? Date.now;
    this.#tiers = config.shared === undefined ? [config.memory] : [config.memory, config.shared];
  }

  /** Callers that wait for a download that another caller began. */
  get waiting(): number {
    return this.#flights.waiting;
  }

  /** The media of a query; rejects with MediaError. `signal` takes only this caller out. */
  async get(query: CacheQuery, signal: AbortSignal): Promise<MediaResult> {
    signal.throwIfAborted();
    if (query.mode === 'no-store') {
      const result = await query.load({ stored: undefined }, signal);
      return this.#told(used(result, 'bypass'));
    }
    const name = `${query.key} ${query.mode} ${query.limits}`;
    try {
      const { value, isJoined } = await this.#flights.run(
        name,
        (flight) => this.#find(query, flight),
        signal,
      );
      return this.#told(isJoined ? used(value, 'coalesced') : value);
    } catch (error) {
      if (error instanceof MediaError && error.code !== 'media_cancelled') {
        this.#config.onUse?.(error.isRemembered ? 'negative' : 'miss', 'none');
      }
      throw error;
    }
  }

  /** Stored bytes by their SHA-256 in hex; undefined when no tier has them. */
  async bytes(digest: string): Promise<Buffer | undefined> {
    for (const tier of this.#tiers) {
      const bytes = await tier.readBytes(digest);
      if (bytes !== undefined) {
        return bytes;
      }
    }
    return undefined;
  }

  /** What `keepDerived` kept under the name; undefined when no tier has it. */
  async derived(name: string): Promise<{ bytes: Buffer; contentType: string } | undefined> {
    for (const tier of this.#tiers) {
      const { media } = await tier.read(name);
      if (media !== undefined) {
        return { bytes: media.bytes, contentType: media.entry.contentTypeHeader ?? '' };
      }
    }
    return undefined;
  }

  /** Keeps what was made of stored bytes, as long as those; does not wait for it. */
  keepDerived(
    name: string,
    { bytes, contentType }: { bytes: Buffer; contentType: string },
    ttlMs: number,
  ): void {
    if (ttlMs <= 0) {
      return;
    }
    const now = this.#now();
    const entry: CachedEntry = {
      digest: digestOf(bytes),
      contentTypeHeader: contentType,
      isCloseDelimited: false,
      etag: undefined,
      lastModified: undefined,
      fetchedAt: now,
      freshUntil: now + ttlMs,
      keepUntil: now + ttlMs,
      mustRevalidate: true,
    };
    this.#later(this.#all((tier) => tier.write(name, { entry, bytes })));
  }

  /** Resolves when what is being written is written. */
  async settled(): Promise<void> {
    while (this.#background.size > 0) {
      await Promise.allSettled(this.#background);
    }
  }

  /** Ends refreshes, waits for writes and closes the shared tier. */
  async close(): Promise<void> {
    this.#closing.abort(new MediaError('media_cancelled', 'downloading media: shutting down'));
    await this.settled();
    await this.#config.shared?.close();
  }

  async #find(query: CacheQuery, signal: AbortSignal): Promise<MediaResult> {
    const { memory } = this.#config;
    let { shared } = this.#config;
    const asked: Asked = { query, found: undefined, isBypassed: false, signal };
    if (query.mode === 'reload') {
      shared = undefined;
    } else {
      for (const tier of this.#tiers) {
        const answer = await tier.read(query.key);
        const result = this.#use(answer, query, tier);
        if (result !== undefined) {
          if (tier === shared && answer.media !== undefined) {
            this.#later(memory.write(query.key, answer.media));
          }
          return result;
        }
        asked.found = answer.media ?? asked.found;
        // It took its time-out already and must not take another.
        if (answer.isUnavailable) {
          shared = undefined;
          asked.isBypassed = true;
        }
      }
      const { found } = asked;
      if (found !== undefined && this.#mayServe(found, this.#rules.staleWhileRevalidateMs)) {
        const result = this.#copy(query, found, 'stale', memory);
        this.#refresh(query, found);
        return result;
      }
    }
    if (query.mode === 'only-if-cached') {
      throw new MediaError('media_not_cached', 'downloading media: no copy is cached');
    }
    const lock = await shared?.lock(query.key, query.timeoutMs + lockSlackMs);
    if (lock === undefined || shared === undefined) {
      return this.#download(asked, undefined);
    }
    if (lock === 'held') {
      const result = await this.#awaitOther(shared, asked);
      return result ?? this.#download(asked, undefined);
    }
    let result: MediaResult | undefined;
    try {
      // Another process may have been ready between the look and the lock.
      result = this.#use(await shared.read(query.key), query, shared);
    } catch (error) {
      this.#later(lock.release());
      throw error;
    }
    if (result !== undefined) {
      this.#later(lock.release());
      return result;
    }
    return this.#download(asked, lock);
  }

  /** What can be used without asking the origin; undefined when nothing can. Throws MediaError. */
  #use(
    { media, failure }: TierAnswer,
    query: CacheQuery,
    tier: CacheTier,
  ): MediaResult | undefined {
    if (media !== undefined && this.#now() < media.entry.freshUntil) {
      return this.#copy(query, media, 'hit', tier);
    }
    if (failure === undefined || (failure.limits ?? query.limits) !== query.limits) {
      return undefined;
    }
    if (
      failure.retryable &&
      media !== undefined &&
      this.#mayServe(media, this.#rules.staleIfErrorMs)
    ) {
      return this.#copy(query, media, 'stale', tier);
    }
    throw failureAgain(failure);
  }

  /** A stored copy, judged by the rules of the call. Throws MediaError. */
  #copy(query: CacheQuery, media: CachedMedia, status: CacheStatus, tier: CacheTier): MediaResult {
    return query.judge(media).with({ cache: this.#useOf(status, tier.name, media.entry) });
  }

  #useOf(status: CacheStatus, tier: CacheUse['tier'], entry: CachedEntry | undefined): CacheUse {
    const now = this.#now();
    return {
      status,
      tier,
      ageMs: entry === undefined ? 0 : Math.max(0, now - entry.fetchedAt),
      ttlMs: entry === undefined ? 0 : Math.max(0, entry.freshUntil - now),
    };
  }

  #mayServe({ entry }: CachedMedia, staleMs: number): boolean {
    return !entry.mustRevalidate && this.#now() < entry.freshUntil + staleMs;
  }

  /** Waits for the process that holds the lock; undefined when it left nothing that can be used. */
  async #awaitOther(
    shared: SharedTier,
    { query, found, signal }: Asked,
  ): Promise<MediaResult | undefined> {
    let result: MediaResult | undefined;
    await awaitOther(shared, query, signal, (answer) => {
      const { media } = answer;
      result = this.#use(answer, query, shared);
      // The other has just asked the origin, which is as good as asking it again.
      if (media !== undefined && media.entry.fetchedAt !== found?.entry.fetchedAt) {
        result ??= this.#copy(query, media, 'hit', shared);
      }
      return result !== undefined;
    });
    return result;
  }

  /** Downloads, stores what came in the background, and gives the lock back after that. */
  async #download(
    { query, found, isBypassed, signal }: Asked,
    lock: CacheLock | undefined,
  ): Promise<MediaResult> {
    const load: CacheLoad = {
      stored: found !== undefined && hasValidator(found.entry) ? found : undefined,
    };
    let written: Promise<unknown> = Promise.resolve();
    try {
      const result = await query.load(load, signal);
      const fresh = await newEntry(load, result.bytes, this.#now(), this.#rules);
      if (fresh !== undefined) {
        written = this.#all((tier) => tier.write(query.key, fresh));
      } else if (found !== undefined) {
        written = this.#all((tier) => tier.delete(query.key));
      }
      const isConfirmed = load.answer?.isNotModified === true;
      const status = isConfirmed ? 'revalidated' : isBypassed ? 'bypass' : 'miss';
      return result.with({ cache: this.#useOf(status, 'none', fresh?.entry) });
    } catch (error) {
      const failure = toMediaError(error, 'headers', 'media');
      const isRemembered = this.#config.negative !== false && failure.code !== 'media_cancelled';
      const remembered = isRemembered
        ? rememberedFailure(failure, query.limits, this.#now())
        : undefined;
      if (remembered !== undefined) {
        written = this.#all((tier) => tier.writeFailure(query.key, remembered));
      }
      if (
        failure.retryable &&
        failure.kind === 'origin' &&
        found !== undefined &&
        this.#mayServe(found, this.#rules.staleIfErrorMs)
      ) {
        return this.#copy(query, found, 'stale', this.#config.memory);
      }
      throw failure;
    } finally {
      this.#later(written.then(() => lock?.release()));
    }
  }

  /** Asks the origin again while the stale copy is served; one at a time per key. */
  #refresh(query: CacheQuery, found: CachedMedia): void {
    const { signal } = this.#closing;
    if (this.#refreshing.has(query.key) || signal.aborted) {
      return;
    }
    this.#refreshing.add(query.key);
    const work = async (): Promise<void> => {
      try {
        const ttlMs = query.timeoutMs + lockSlackMs;
        const lock = await this.#config.shared?.lock(query.key, ttlMs);
        if (lock !== 'held') {
          await this.#download({ query, found, isBypassed: false, signal }, lock);
        }
      } catch {
        // Remembered where that helps; the caller has its copy.
      } finally {
        this.#refreshing.delete(query.key);
      }
    };
    this.#later(work());
  }

  #all(action: (tier: CacheTier) => Promise<void>): Promise<unknown> {
    return Promise.all(this.#tiers.map(action));
  }

  #later(work: Promise<unknown>): void {
    const tracked = work.finally(() => this.#background.delete(tracked));
    this.#background.add(tracked);
  }

  /** Tells what was done for one reference. */
  #told(result: MediaResult): MediaResult {
    const { cache } = result.facts;
    if (cache !== undefined) {
      this.#config.onUse?.(cache.status, cache.tier);
    }
    return result;
  }
}

/** One look into the cache, as far as it has come. */
interface Asked {
  readonly query: CacheQuery;
  /** A copy that may not be used as it is. */
  found: CachedMedia | undefined;
  /** Whether the shared tier could not be asked. */
  isBypassed: boolean;
  readonly signal: AbortSignal;
}

function used(result: MediaResult, status: CacheStatus): MediaResult {
  const { cache = { tier: 'none' as const, ageMs: 0, ttlMs: 0 } } = result.facts;
  return result.with({ cache: { ...cache, status } });
}
