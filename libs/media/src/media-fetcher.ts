import { type Dispatcher } from 'undici';
import { type AddressGuard, createAddressGuard } from './address-guard.ts';
import { Reservation, TotalBudget, TotalShare } from './budget.ts';
import { urlKey } from './cache/keys.ts';
import { loadBody, validators } from './cache/load-answer.ts';
import { type CacheLoad, type MediaCache } from './cache/media-cache.ts';
import { type DataUri, type DataUriOptions, parseDataUri } from './data-uri.ts';
import { download } from './download.ts';
import { told } from './ended-download.ts';
import { type MediaFetcherConfig } from './fetcher-config.ts';
import { createGuardedDispatcher, type ProxyConfig } from './guarded-dispatcher.ts';
import { inspect } from './inspect.ts';
import { Limiter } from './limiter.ts';
import { MediaError } from './media-error.ts';
import { MediaResult } from './media-result.ts';
import {
  defaultMediaFetchOptions,
  defaultMediaLimits,
  maxItemBytes,
  type MediaFetchOptions,
  type MediaLimits,
  type MediaRef,
  type Modality,
} from './options.ts';
import { type Body, readBody, singleHeader } from './read-body.ts';
import { checkedResolver, type ResolveChecked, systemResolve } from './resolve-host.ts';
import { withRetries } from './retry.ts';
import { toMediaError } from './transport-error.ts';
import { checkHttpUrl, type UrlPolicy } from './url-policy.ts';

/** One way out: pooled sockets may be shared only by calls with the same address rules. */
interface Route {
  readonly guard: AddressGuard;
  readonly resolve: ResolveChecked;
  readonly dispatcher: Dispatcher;
}

/** Equal references of one call, downloaded once. */
interface Group {
  readonly ref: MediaRef;
  readonly indices: number[];
  /** The checked URL, or the decoded bytes of a `data:` URI. */
  readonly source: URL | MediaResult;
}

const isDataUri = (url: string): boolean => /^data:/i.test(url);

/**
 * Turns media references of untrusted clients into verified bytes, without reaching anything but public web
 * origins and without being exhausted by one. Safe for concurrent use; the owner calls `close`.
 */
export class MediaFetcher {
  readonly #config: MediaFetcherConfig;
  readonly #limits: MediaLimits;
  readonly #proxy: ProxyConfig | undefined;
  readonly #downloads: Limiter;
  readonly #memory: Limiter;
  readonly #publicRoute: Route;
  readonly #privateRoute: Route;
  readonly #running = new Set<Promise<unknown>>();
  /** Rules of the process that decide what may be read from a cache that others fill too. */
  readonly #policyText: string;
  #isClosed = false;

  /** Throws an Error for a malformed CIDR. */
  constructor(config: MediaFetcherConfig = {}) {
    this.#config = config;
    const limits = { ...defaultMediaLimits, ...config.limits };
    this.#limits = limits;
    const { proxy, cache, ...rules } = config;
    this.#policyText = cache === undefined ? '' : JSON.stringify(rules);
    this.#proxy = (proxy?.httpProxy ?? '') + (proxy?.httpsProxy ?? '') === '' ? undefined : proxy;
    const { globalMaxDownloads, globalMaxQueuedDownloads, globalMaxBufferedBytes } = limits;
    this.#downloads = new Limiter('downloads', globalMaxDownloads, globalMaxQueuedDownloads);
    // Only running downloads wait for memory, so there are never more waiters than those.
    this.#memory = new Limiter('buffered bytes', globalMaxBufferedBytes, globalMaxDownloads);
    this.#publicRoute = this.#createRoute(false);
    this.#privateRoute = this.#createRoute(true);
  }

  /**
   * Fetches all references, in their order; equal ones are downloaded once and share a result. Everything
   * that can be refused without network is refused first, lowest index first. The first failure aborts the
   * rest, and the call rejects with that MediaError (`index` set) when all of them have ended.
   */
  async fetchMany(
    refs: readonly MediaRef[],
    options: MediaFetchOptions,
    signal: AbortSignal,
  ): Promise<MediaResult[]> {
    if (signal.aborted) {
      throw cancelled(signal);
    }
    if (this.#isClosed) {
      throw new MediaError('media_overloaded', 'downloading media: shutting down');
    }
    const running = this.#fetchMany(refs, options, signal);
    this.#running.add(running);
    try {
      return await running;
    } finally {
      this.#running.delete(running);
    }
  }

  /** Fetches one reference; see `fetchMany`. */
  async fetch(
    ref: MediaRef,
    options: MediaFetchOptions,
    signal: AbortSignal,
  ): Promise<MediaResult> {
    const [result] = await this.fetchMany([ref], options, signal);
    if (result === undefined) {
      throw new MediaError('media_internal', 'downloading media: internal failure');
    }
    return result;
  }

  /** Refuses a URL by what its text says, without network; throws MediaError. */
  checkUrl(url: string, options: MediaFetchOptions = defaultMediaFetchOptions): void {
    if (isDataUri(url)) {
      this.parseDataUri(Buffer.from(url), options);
    } else {
      checkHttpUrl(url, this.#policy(options));
    }
  }

  /** Checks a `data:` URI in place; see the function of the same name. */
  parseDataUri(bytes: Uint8Array, options: DataUriOptions, modality: Modality = 'image'): DataUri {
    return parseDataUri(bytes, options, modality, this.#limits);
  }

  /** What is going on, for metrics. */
  stats(): { activeDownloads: number; queuedDownloads: number; bufferedBytes: number } {
    return {
      activeDownloads: this.#downloads.used,
      queuedDownloads: this.#downloads.queued,
      bufferedBytes: this.#memory.used,
    };
  }

  /** Refuses new calls and resolves when the running ones have ended and every socket is closed. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await Promise.allSettled(this.#running);
    await this.#config.cache?.close();
    await Promise.all([
      this.#publicRoute.dispatcher.close(),
      this.#privateRoute.dispatcher.close(),
    ]);
  }

  async #fetchMany(
    refs: readonly MediaRef[],
    options: MediaFetchOptions,
    signal: AbortSignal,
  ): Promise<MediaResult[]> {
    const total = new TotalBudget(options.maxTotalDownloadBytes);
    total.add(options.inlineBytes ?? 0);
    const groups = this.#group(refs, options, total);
    const results = new Array<MediaResult>(refs.length);
    const reservations: Reservation[] = [];
    const call = new AbortController();
    const leave = (): void => {
      call.abort(cancelled(signal));
    };
    signal.addEventListener('abort', leave, { once: true });

    let failure: MediaError | undefined;
    const queue = groups.values();
    const work = async (): Promise<void> => {
      for (const group of queue) {
        if (call.signal.aborted) {
          return;
        }
        try {
          const memory = new Reservation(
            this.#memory,
            this.#maxItemBytes(group.ref.modality, options),
          );
          reservations.push(memory);
          const result = await this.#run(group, { options, total, memory, signal: call.signal });
          for (const index of group.indices) {
            results[index] = result;
          }
        } catch (error) {
          if (failure === undefined) {
            failure = toMediaError(error, 'body', 'media');
            failure.index = group.indices[0];
            call.abort(failure);
          }
          return;
        }
      }
    };
    try {
      const workers = Math.min(options.maxConcurrentDownloads, groups.length);
      await Promise.all(Array.from({ length: workers }, work));
    } finally {
      signal.removeEventListener('abort', leave);
      for (const memory of reservations) {
        memory.release();
      }
    }
    if (signal.aborted) {
      throw cancelled(signal);
    }
    if (failure !== undefined) {
      throw failure;
    }
    return results;
  }

  #createRoute(allowPrivateNetworks: boolean): Route {
    const { extraCa, resolve = systemResolve } = this.#config;
    const guard = createAddressGuard({ ...this.#config, allowPrivateNetworks });
    const checked = checkedResolver(resolve, guard, this.#limits.dnsTimeoutMs);
    const dispatcher = createGuardedDispatcher({
      guard,
      resolve: checked,
      limits: this.#limits,
      proxy: this.#proxy,
      extraCa,
      buildConnector: this.#config.testOnlyBuildConnector,
    });
    return { guard, resolve: checked, dispatcher };
  }

  #route(options: MediaFetchOptions): Route {
    return options.allowPrivateNetworks ? this.#privateRoute : this.#publicRoute;
  }

  #policy(options: MediaFetchOptions): UrlPolicy {
    return {
      guard: this.#route(options).guard,
      maxUrlLength: this.#limits.maxUrlLength,
      allowedDomains: options.allowedDomains,
      blockedDomains: this.#config.blockedDomains ?? [],
      allowedPorts: this.#config.allowedPorts ?? [],
    };
  }

  /** An item beyond the whole memory could never be admitted. */
  #maxItemBytes(modality: Modality, options: MediaFetchOptions): number {
    return Math.min(maxItemBytes(modality, options), this.#limits.globalMaxBufferedBytes);
  }

  /** The static pass: checks every reference and joins equal ones. */
  #group(refs: readonly MediaRef[], options: MediaFetchOptions, total: TotalBudget): Group[] {
    const policy = this.#policy(options);
    const groups = new Map<string, Group>();
    for (const [index, ref] of refs.entries()) {
      const key = `${ref.modality} ${ref.url}`;
      try {
        let group = groups.get(key);
        if (group === undefined) {
          const source = isDataUri(ref.url)
            ? this.#decode(ref, options)
            : checkHttpUrl(ref.url, policy);
          group = { ref, indices: [], source };
          groups.set(key, group);
        }
        group.indices.push(index);
        if (group.source instanceof MediaResult) {
          total.add(group.source.byteLength);
        }
      } catch (error) {
        const failure = toMediaError(error, 'headers', 'media');
        failure.index = index;
        throw failure;
      }
    }
    return [...groups.values()];
  }

  #decode(ref: MediaRef, options: MediaFetchOptions): MediaResult {
    const text = Buffer.from(ref.url);
    const { contentType, payloadStart } = this.parseDataUri(text, options, ref.modality);
    return new MediaResult(
      Buffer.from(text.toString('latin1', payloadStart), 'base64'),
      contentType,
    );
  }

  #run(group: Group, call: Call): Promise<MediaResult> {
    const { source } = group;
    if (source instanceof MediaResult) {
      return Promise.resolve(source);
    }
    const { cache } = this.#config;
    return cache === undefined
      ? this.#runDownload(source, group, call)
      : this.#runCached(source, group, call, cache);
  }

  /** A look into the cache within the deadline; its downloads serve other calls too and hold their own memory. */
  async #runCached(source: URL, group: Group, call: Call, cache: MediaCache): Promise<MediaResult> {
    const { options } = call;
    const { modality } = group.ref;
    const { downloadTimeoutMs: timeoutMs, cacheMode: mode = 'default' } = options;
    const maxBytes = this.#maxItemBytes(modality, options);
    const item = new AbortController();
    const timer = setTimeout(() => {
      item.abort(
        new MediaError('media_timeout', `downloading ${modality}: not done in time`, {
          limit: timeoutMs,
        }),
      );
    }, timeoutMs);
    const leave = (): void => {
      item.abort(call.signal.reason);
    };
    call.signal.addEventListener('abort', leave, { once: true });
    try {
      const result = await cache.get(
        {
          key: urlKey(cache.secret, {
            namespace: cache.namespace,
            modality,
            url: source,
            policy: `${JSON.stringify([options.allowedDomains, options.allowPrivateNetworks])}${this.#policyText}`,
          }),
          limits: JSON.stringify({ ...options, inlineBytes: 0, cacheMode: '' }),
          mode,
          timeoutMs,
          judge: ({ entry, bytes }) => {
            const { contentTypeHeader, isCloseDelimited } = entry;
            const rules = { modality, options, limits: this.#limits, contentTypeHeader };
            return inspect({ bytes, isCloseDelimited }, rules);
          },
          load: async (load, signal) => {
            const memory = new Reservation(this.#memory, maxBytes);
            const total = new TotalBudget(maxBytes);
            const alone = { ...group, indices: [0] };
            try {
              return await this.#runDownload(source, alone, {
                options,
                total,
                memory,
                signal,
                load,
              });
            } finally {
              memory.release();
            }
          },
        },
        item.signal,
      );
      if (result.byteLength > maxBytes) {
        // A copy that was stored by a call with a larger limit.
        throw new MediaError(
          'media_too_large',
          `downloading ${modality}: it exceeds ${maxBytes} bytes`,
          { limit: maxBytes, actual: result.byteLength },
        );
      }
      call.total.add(result.byteLength * group.indices.length);
      await call.memory.grow(result.byteLength, item.signal);
      return result;
    } finally {
      clearTimeout(timer);
      call.signal.removeEventListener('abort', leave);
    }
  }

  /** One download with its deadline, from the wait for its turn to the verified bytes. */
  async #runDownload(source: URL, group: Group, call: Call): Promise<MediaResult> {
    const { downloadTimeoutMs } = call.options;
    const deadline = performance.now() + downloadTimeoutMs;
    const item = new AbortController();
    const timer = setTimeout(() => {
      item.abort(
        new MediaError('media_timeout', `downloading ${group.ref.modality}: not done in time`, {
          limit: downloadTimeoutMs,
        }),
      );
    }, downloadTimeoutMs);
    const leave = (): void => {
      item.abort(call.signal.reason);
    };
    call.signal.addEventListener('abort', leave, { once: true });
    try {
      await this.#downloads.acquire(1, item.signal);
      try {
        return await told(this.#config.onDownload, call.signal, (onHeaders) =>
          this.#attempts(source, group, call, { item, deadline, onHeaders }),
        );
      } finally {
        this.#downloads.release(1);
      }
    } finally {
      clearTimeout(timer);
      call.signal.removeEventListener('abort', leave);
    }
  }

  #attempts(
    url: URL,
    group: Group,
    call: Call,
    { item, deadline, onHeaders }: ItemTime,
  ): Promise<MediaResult> {
    const { maxRetries, retryPauseMs: pauseMs } = this.#limits;
    return withRetries({ maxRetries, pauseMs, deadline, signal: item.signal }, () =>
      this.#download(url, group, call, item, onHeaders),
    );
  }

  async #download(
    url: URL,
    { ref, indices }: Group,
    { options, total, memory, load }: Call,
    item: AbortController,
    onHeaders: () => void,
  ): Promise<MediaResult> {
    const { modality } = ref;
    const { signal } = item;
    const { userAgent = 'llm-media-fetcher/1.0', allowHttpsDowngrade = false } = this.#config;
    const route = this.#route(options);
    const answer = await download(url, {
      modality,
      policy: this.#policy(options),
      limits: this.#limits,
      dispatcher: route.dispatcher,
      resolveFirst: this.#proxy === undefined ? undefined : route.resolve,
      trustRemoteDns: this.#proxy?.trustRemoteDns === true,
      userAgent,
      allowHttpsDowngrade,
      conditions: load?.stored && validators(load.stored.entry),
      signal,
    });
    const { response, from } = answer;
    onHeaders();
    const share = new TotalShare(total);
    try {
      const read = (): Promise<Body> =>
        readBody(response, {
          doing: `downloading ${modality}`,
          maxBytes: this.#maxItemBytes(modality, options),
          copies: indices.length,
          total: share,
          memory,
          limits: this.#limits,
          signal,
          abort: (reason) => {
            item.abort(reason);
          },
        });
      if (load !== undefined) {
        const body = await loadBody(answer, load, read);
        return inspect(body, {
          modality,
          options,
          limits: this.#limits,
          contentTypeHeader: body.contentTypeHeader,
        });
      }
      const body = await read();
      const contentTypeHeader = singleHeader(response.headers, 'content-type');
      return inspect(body, { modality, options, limits: this.#limits, contentTypeHeader });
    } catch (error) {
      share.giveBack();
      memory.release();
      throw toMediaError(error, 'body', from);
    }
  }
}

/** What times one item. */
interface ItemTime {
  readonly item: AbortController;
  /** By `performance.now()`, for all attempts together. */
  readonly deadline: number;
  /** To be called when the headers of the answer have come. */
  readonly onHeaders: () => void;
}

/** What the downloads of one call share. */
interface Call {
  readonly options: MediaFetchOptions;
  readonly total: TotalBudget;
  readonly memory: Reservation;
  readonly signal: AbortSignal;
  /** Set when the download is made for the cache. */
  readonly load?: CacheLoad;
}

function cancelled(signal: AbortSignal): MediaError {
  return new MediaError('media_cancelled', 'downloading media: the caller left', {
    cause: signal.reason,
  });
}
