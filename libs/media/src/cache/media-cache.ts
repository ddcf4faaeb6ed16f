import { setTimeout as sleep } from 'node:timers/promises';
import { MediaError } from '../media-error.ts';
import { type MediaResult } from '../media-result.ts';
import { toMediaError } from '../transport-error.ts';
import {
  type CachedEntry,
  type CachedMedia,
  type CacheLock,
  type CacheTier,
  type SharedTier,
  type TierAnswer,
} from './cache-tier.ts';
import { defaultFreshnessRules, type FreshnessRules, type Hop, lifetimeOf } from './freshness.ts';
import { digestOf } from './keys.ts';
import { failureAgain, rememberedFailure } from './negative.ts';

/** How a call uses the cache; `reload` downloads in any case and stores what came. */
export type CacheMode = 'default' | 'reload' | 'no-store' | 'only-if-cached';

/** What the cache did for one reference. */
export type CacheStatus =
  'hit' | 'miss' | 'revalidated' | 'stale' | 'coalesced' | 'bypass' | 'negative';

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
  readonly onUse?: (status: CacheStatus) => void;
  readonly now?: () => number;
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
  /** From `urlKey`. */
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

interface Flight {
  readonly promise: Promise<MediaResult>;
  readonly controller: AbortController;
  waiters: number;
}

/** How often the store is asked whether another process is ready: the pause grows from first to last. */
const firstPollMs = 25;
const lastPollMs = 100;
/** A lock outlives the longest download by this, so that only a process that died loses it. */
const lockSlackMs = 2_000;

const hasValidator = ({ etag, lastModified }: CachedEntry): boolean =>
  etag !== undefined || lastModified !== undefined;

/**
 * Finds media in its tiers, or downloads each of them once for all who wait in this process and, with a shared
 * tier, in all processes (media-fetcher.md 6). A tier that fails is left out; it never fails a call.
 */
export class MediaCache {
  readonly #config: MediaCacheConfig;
  readonly #rules: FreshnessRules;
  readonly #now: () => number;
  readonly #tiers: readonly CacheTier[];
  readonly #flights = new Map<string, Flight>();
  readonly #refreshing = new Set<string>();
  readonly #background = new Set<Promise<unknown>>();
  readonly #closing = new AbortController();

  constructor(config: MediaCacheConfig) {
    this.#config = config;
    this.#rules = { ...defaultFreshnessRules, ...config.rules };
    this.#now = config.now ?? Date.now;
    this.#tiers = config.shared === undefined ? [config.memory] : [config.memory, config.shared];
  }

  /** For `urlKey`. */
  get secret(): string {
    return this.#config.secret ?? '';
  }

  /** For `urlKey`. */
  get namespace(): string {
    return this.#config.namespace ?? '';
  }

  /** The media of a query; rejects with MediaError. `signal` takes only this caller out. */
  async get(query: CacheQuery, signal: AbortSignal): Promise<MediaResult> {
    signal.throwIfAborted();
    if (query.mode === 'no-store') {
      this.#note('bypass');
      return query.load({ stored: undefined }, signal);
    }
    const name = `${query.key} ${query.mode} ${query.limits}`;
    const running = this.#flights.get(name);
    if (running !== undefined) {
      this.#note('coalesced');
    }
    const flight = running ?? this.#start(name, query);
    const { promise: left, reject } = Promise.withResolvers<never>();
    const leave = (): void => {
      reject(toMediaError(signal.reason, 'headers', 'media'));
    };
    signal.addEventListener('abort', leave, { once: true });
    flight.waiters += 1;
    try {
      return await Promise.race([flight.promise, left]);
    } finally {
      signal.removeEventListener('abort', leave);
      flight.waiters -= 1;
      if (flight.waiters === 0 && this.#flights.get(name) === flight) {
        this.#flights.delete(name);
        flight.controller.abort(signal.reason);
      }
    }
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

  #start(name: string, query: CacheQuery): Flight {
    const controller = new AbortController();
    const promise = this.#find(query, controller.signal);
    const flight: Flight = { promise, controller, waiters: 0 };
    this.#flights.set(name, flight);
    const end = (): void => {
      if (this.#flights.get(name) === flight) {
        this.#flights.delete(name);
      }
    };
    promise.then(end, end);
    return flight;
  }

  async #find(query: CacheQuery, signal: AbortSignal): Promise<MediaResult> {
    let found: CachedMedia | undefined;
    let { shared } = this.#config;
    if (query.mode === 'reload') {
      shared = undefined;
    } else {
      for (const tier of this.#tiers) {
        const answer = await tier.read(query.key);
        const result = this.#use(answer, query);
        if (result !== undefined) {
          if (tier === shared && answer.media !== undefined) {
            this.#later(this.#config.memory.write(query.key, answer.media));
          }
          return result;
        }
        found = answer.media ?? found;
        // It took its time-out already and must not take another.
        if (answer.isUnavailable) {
          shared = undefined;
        }
      }
      if (found !== undefined && this.#mayServe(found, this.#rules.staleWhileRevalidateMs)) {
        const result = query.judge(found);
        this.#note('stale');
        this.#refresh(query, found);
        return result;
      }
    }
    if (query.mode === 'only-if-cached') {
      throw new MediaError('media_not_cached', 'downloading media: no copy is cached');
    }
    const lock = await shared?.lock(query.key, query.timeoutMs + lockSlackMs);
    if (lock === undefined || shared === undefined) {
      return this.#download(query, found, undefined, signal);
    }
    if (lock === 'held') {
      const result = await this.#awaitOther(shared, query, found, signal);
      return result ?? this.#download(query, found, undefined, signal);
    }
    // Another process may have been ready between the look and the lock.
    const answer = await shared.read(query.key);
    let result: MediaResult | undefined;
    try {
      result = this.#use(answer, query);
    } catch (error) {
      this.#later(lock.release());
      throw error;
    }
    if (result !== undefined) {
      this.#later(lock.release());
      return result;
    }
    return this.#download(query, found, lock, signal);
  }

  /** What can be used without asking the origin; undefined when nothing can. Throws MediaError. */
  #use({ media, failure }: TierAnswer, query: CacheQuery): MediaResult | undefined {
    if (media !== undefined && this.#now() < media.entry.freshUntil) {
      const result = query.judge(media);
      this.#note('hit');
      return result;
    }
    if (failure === undefined || (failure.limits ?? query.limits) !== query.limits) {
      return undefined;
    }
    const isStaleGood =
      failure.retryable && media !== undefined && this.#mayServe(media, this.#rules.staleIfErrorMs);
    this.#note(isStaleGood ? 'stale' : 'negative');
    if (isStaleGood) {
      return query.judge(media);
    }
    throw failureAgain(failure);
  }

  #mayServe({ entry }: CachedMedia, staleMs: number): boolean {
    return !entry.mustRevalidate && this.#now() < entry.freshUntil + staleMs;
  }

  /** Waits for the process that holds the lock; undefined when it left nothing that can be used. */
  async #awaitOther(
    shared: SharedTier,
    query: CacheQuery,
    found: CachedMedia | undefined,
    signal: AbortSignal,
  ): Promise<MediaResult | undefined> {
    const endsAt = performance.now() + query.timeoutMs;
    for (let pauseMs = firstPollMs; ; pauseMs = Math.min(pauseMs * 1.5, lastPollMs)) {
      const withJitter = pauseMs * (0.75 + 0.5 * Math.random());
      try {
        await sleep(withJitter, undefined, { signal });
      } catch {
        throw toMediaError(signal.reason, 'headers', 'media');
      }
      // In this order: who releases the lock has written before.
      const isLocked = await shared.isLocked(query.key);
      const answer = await shared.read(query.key);
      const { media } = answer;
      const result = this.#use(answer, query);
      if (result !== undefined) {
        return result;
      }
      // The other has just asked the origin, which is as good as asking it again.
      if (media !== undefined && media.entry.fetchedAt !== found?.entry.fetchedAt) {
        this.#note('hit');
        return query.judge(media);
      }
      if (!isLocked || answer.isUnavailable || performance.now() >= endsAt) {
        return undefined;
      }
    }
  }

  /** Downloads, stores what came in the background, and gives the lock back after that. */
  async #download(
    query: CacheQuery,
    found: CachedMedia | undefined,
    lock: CacheLock | undefined,
    signal: AbortSignal,
  ): Promise<MediaResult> {
    const load: CacheLoad = {
      stored: found !== undefined && hasValidator(found.entry) ? found : undefined,
    };
    let written: Promise<unknown> = Promise.resolve();
    try {
      const result = await query.load(load, signal);
      this.#note(load.answer?.isNotModified === true ? 'revalidated' : 'miss');
      written = this.#store(query, load, result, found);
      return result;
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
        this.#note('stale');
        return query.judge(found);
      }
      throw failure;
    } finally {
      this.#later(written.then(() => lock?.release()));
    }
  }

  #store(
    { key }: CacheQuery,
    { answer, stored }: CacheLoad,
    { bytes }: MediaResult,
    found: CachedMedia | undefined,
  ): Promise<unknown> {
    const now = this.#now();
    const lifetime = answer && lifetimeOf(answer.hops, now, this.#rules);
    if (answer === undefined || lifetime === undefined) {
      return found === undefined ? Promise.resolve() : this.#all((tier) => tier.delete(key));
    }
    const headers = answer.hops.at(-1)?.headers ?? {};
    const header = (name: string): string | undefined => {
      const value = headers[name];
      return typeof value === 'string' ? value : undefined;
    };
    if (answer.isNotModified && stored !== undefined) {
      // The bytes are the ones that were confirmed; only their times change.
      const old = stored.entry;
      const saysNothing = header('cache-control') === undefined && header('expires') === undefined;
      const gainMs = saysNothing ? now - old.fetchedAt : 0;
      const times = saysNothing
        ? { freshUntil: old.freshUntil + gainMs, keepUntil: old.keepUntil + gainMs }
        : lifetime;
      const mustRevalidate = lifetime.mustRevalidate || (saysNothing && old.mustRevalidate);
      const entry = { ...old, ...times, mustRevalidate, fetchedAt: now };
      return this.#all((tier) => tier.write(key, { entry, bytes: stored.bytes }));
    }
    // After a redirect a validator would be shown to another origin than the one that gave it.
    const isDirect = answer.hops.length === 1;
    const entry: CachedEntry = {
      ...lifetime,
      digest: digestOf(bytes),
      contentTypeHeader: answer.contentTypeHeader,
      isCloseDelimited: answer.isCloseDelimited,
      etag: isDirect ? header('etag') : undefined,
      lastModified: isDirect ? header('last-modified') : undefined,
      fetchedAt: now,
    };
    return this.#all((tier) => tier.write(key, { entry, bytes }));
  }

  /** Asks the origin again while the stale copy is served; one at a time per key. */
  #refresh(query: CacheQuery, found: CachedMedia): void {
    if (this.#refreshing.has(query.key) || this.#closing.signal.aborted) {
      return;
    }
    this.#refreshing.add(query.key);
    const work = async (): Promise<void> => {
      try {
        const ttlMs = query.timeoutMs + lockSlackMs;
        const lock = await this.#config.shared?.lock(query.key, ttlMs);
        if (lock !== 'held') {
          await this.#download(query, found, lock, this.#closing.signal);
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

  #note(status: CacheStatus): void {
    this.#config.onUse?.(status);
  }
}
