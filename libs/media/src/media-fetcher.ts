import { type Reservation, TotalBudget } from './budget.ts';
import { cachedDownload } from './cache/cached-download.ts';
import { withDeadline } from './deadline.ts';
import { type DataUri, type DataUriOptions, parseDataUri } from './data-uri.ts';
import { Downloader, type DownloadStats } from './downloader.ts';
import { type EndedItem } from './ended-item.ts';
import { type MediaFetcherConfig } from './fetcher-config.ts';
import { MediaError } from './media-error.ts';
import { MediaResult } from './media-result.ts';
import {
  defaultMediaFetchOptions,
  defaultMediaLimits,
  type MediaFetchOptions,
  type MediaLimits,
  type MediaRef,
  type Modality,
} from './options.ts';
import { Routes } from './routes.ts';
import { ImageTransformer } from './transform/image-transformer.ts';
import { toMediaError } from './transport-error.ts';
import { checkHttpUrl } from './url-policy.ts';

/** Equal references of one call, downloaded once. */
interface Group {
  readonly ref: MediaRef;
  readonly indices: number[];
  /** The checked URL, or the decoded bytes of a `data:` URI. */
  readonly source: URL | MediaResult;
}

/** Whether images of a call are decoded here at all. */
const decodes = ({ transform, transcodeImageTypes, decodesStrictly }: MediaFetchOptions): boolean =>
  transform?.mode === 'fit' || (transcodeImageTypes ?? []).length > 0 || decodesStrictly === true;

const isDataUri = (url: string): boolean => /^data:/i.test(url);

/**
 * Turns media references of untrusted clients into verified bytes, without reaching anything but public web
 * origins and without being exhausted by one. Safe for concurrent use; the owner calls `close`.
 */
export class MediaFetcher {
  readonly #config: MediaFetcherConfig;
  readonly #limits: MediaLimits;
  readonly #routes: Routes;
  readonly #downloader: Downloader;
  readonly #transformer: ImageTransformer;
  #running = 0;
  /** Resolves when no call runs and none may begin. */
  readonly #idle = Promise.withResolvers<void>();
  /** Rules of the process that decide what may be read from a cache that others fill too. */
  readonly #policyText: string;
  #isClosed = false;

  /** Throws an Error for a malformed CIDR. */
  constructor(config: MediaFetcherConfig = {}) {
    this.#config = config;
    const { cache, limits, ...rules } = { ...config, proxy: undefined };
    this.#limits = { ...defaultMediaLimits, ...limits };
    this.#policyText = cache === undefined ? '' : JSON.stringify(rules);
    this.#routes = new Routes(config, this.#limits);
    this.#downloader = new Downloader(config, this.#limits, this.#routes);
    this.#transformer = new ImageTransformer(this.#limits, cache);
  }

  /**
   * Fetches all references, in their order; equal ones are downloaded once and share a result. Everything
   * that can be refused without network is refused first, lowest index first. The first failure aborts the
   * rest, and the call rejects with that MediaError (`index` set) when all of them have ended. `onItem` is told of every
   * reference whose work has begun, when it has ended; it must not throw.
   */
  async fetchMany(
    refs: readonly MediaRef[],
    options: MediaFetchOptions,
    signal: AbortSignal,
    onItem?: (item: EndedItem) => void,
  ): Promise<MediaResult[]> {
    if (signal.aborted) {
      throw cancelled(signal);
    }
    if (this.#isClosed) {
      throw new MediaError('media_overloaded', 'downloading media: shutting down');
    }
    this.#running += 1;
    try {
      return await this.#fetchMany(refs, options, signal, (item) => {
        this.#config.onItem?.(item);
        onItem?.(item);
      });
    } finally {
      this.#running -= 1;
      this.#endIfIdle();
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
      checkHttpUrl(url, this.#routes.policy(options));
    }
  }

  /** Checks a `data:` URI in place; see the function of the same name. */
  parseDataUri(bytes: Uint8Array, options: DataUriOptions, modality: Modality = 'image'): DataUri {
    return parseDataUri(bytes, options, modality, this.#limits);
  }

  /** Bytes that the cache has under their SHA-256 in hex; undefined when it has none. */
  async cachedBytes(digest: string): Promise<Buffer | undefined> {
    return this.#config.cache?.bytes(digest);
  }

  /** What is going on, for metrics. */
  stats(): DownloadStats {
    return this.#downloader.stats();
  }

  /** Callers that wait for a download that another caller began. */
  get coalescedWaiters(): number {
    return this.#config.cache?.waiting ?? 0;
  }

  /** Refuses new calls and resolves when the running ones have ended and every socket is closed. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#endIfIdle();
    await this.#idle.promise;
    await this.#config.cache?.close();
    await this.#routes.close();
  }

  #endIfIdle(): void {
    if (this.#isClosed && this.#running === 0) {
      this.#idle.resolve();
    }
  }

  async #fetchMany(
    refs: readonly MediaRef[],
    options: MediaFetchOptions,
    signal: AbortSignal,
    onItem: (item: EndedItem) => void,
  ): Promise<MediaResult[]> {
    const total = new TotalBudget(options.maxTotalDownloadBytes);
    total.add(options.inlineBytes ?? 0);
    if (refs.length === 0) {
      return [];
    }
    const groups = this.#group(refs, options, total, onItem);
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
        const startedAt = performance.now();
        const end = (result?: MediaResult, error?: MediaError): void => {
          const { ref, indices } = group;
          onItem({ ref, indices, result, error, durationMs: performance.now() - startedAt });
        };
        try {
          const memory = this.#downloader.reserve(group.ref.modality, options);
          reservations.push(memory);
          const result = await this.#run(group, { options, total, memory, signal: call.signal });
          for (const index of group.indices) {
            results[index] = result;
          }
          end(result);
        } catch (error) {
          const itemFailure = toMediaError(error, 'body', 'media');
          // Its own failure, or that of another item which ended the call.
          end(undefined, call.signal.aborted ? cancelled(call.signal) : itemFailure);
          if (failure === undefined) {
            failure = itemFailure;
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

  /** The static pass: checks every reference and joins equal ones. */
  #group(
    refs: readonly MediaRef[],
    options: MediaFetchOptions,
    total: TotalBudget,
    onItem: (item: EndedItem) => void,
  ): Group[] {
    const policy = this.#routes.policy(options);
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
        onItem({ ref, indices: [index], result: undefined, error: failure, durationMs: 0 });
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

  async #run({ source, ref, indices }: Group, call: Call): Promise<MediaResult> {
    if (source instanceof MediaResult) {
      return source;
    }
    const { modality } = ref;
    const { options, signal } = call;
    const startedAt = performance.now();
    const one = { ...call, modality, copies: indices.length };
    const { cache } = this.#config;
    const downloader = this.#downloader;
    const result = await (cache === undefined
      ? downloader.run(source, one)
      : cachedDownload({
          source,
          call: one,
          cache,
          downloader,
          limits: this.#limits,
          policyText: this.#policyText,
        }));
    if (modality !== 'image' || !decodes(options)) {
      return result;
    }
    const timeoutMs = Math.max(1, options.downloadTimeoutMs - (performance.now() - startedAt));
    return withDeadline({ modality, timeoutMs, signal }, async (item) => {
      if (options.contentCheck === 'strict' && options.decodesStrictly === true) {
        await this.#transformer.verify(result, item.signal);
      }
      return this.#transformer.apply(result, options, item.signal);
    });
  }
}

/** What the downloads of one call share. */
interface Call {
  readonly options: MediaFetchOptions;
  readonly total: TotalBudget;
  readonly memory: Reservation;
  readonly signal: AbortSignal;
}

function cancelled(signal: AbortSignal): MediaError {
  return new MediaError('media_cancelled', 'downloading media: the caller left', {
    cause: signal.reason,
  });
}
