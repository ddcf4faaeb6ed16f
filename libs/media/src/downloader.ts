import { Reservation, type TotalBudget, TotalShare } from './budget.ts';
import { loadBody, validators } from './cache/load-answer.ts';
import { type CacheLoad } from './cache/cache-query.ts';
import { withDeadline } from './deadline.ts';
import { type Download, download } from './download.ts';
import { told } from './ended-download.ts';
import { type MediaFetcherConfig } from './fetcher-config.ts';
import { inspect } from './inspect.ts';
import { Limiter } from './limiter.ts';
import { type MediaResult, type MediaTiming } from './media-result.ts';
import {
  maxItemBytes,
  type MediaFetchOptions,
  type MediaLimits,
  type Modality,
} from './options.ts';
import { type Body, readBody, singleHeader } from './read-body.ts';
import { withRetries } from './retry.ts';
import { redactUrl } from './redact.ts';
import { type Routes } from './routes.ts';
import { toMediaError } from './transport-error.ts';

/** One item to be downloaded. */
export interface DownloadCall {
  readonly modality: Modality;
  readonly options: MediaFetchOptions;
  /** References that it serves; each counts towards the total. */
  readonly copies: number;
  readonly total: TotalBudget;
  readonly memory: Reservation;
  readonly signal: AbortSignal;
  /** Set when the download is made for the cache. */
  readonly load?: CacheLoad;
}

/** What is going on at a moment. */
export interface DownloadStats {
  readonly activeDownloads: number;
  readonly queuedDownloads: number;
  readonly bufferedBytes: number;
}

/** What times one item. */
interface ItemTime {
  readonly item: AbortController;
  /** By `performance.now()`, for all attempts together. */
  readonly deadline: number;
  /** To be called when the headers of the answer have come. */
  readonly onHeaders: () => void;
}

/** Downloads within the limits of the process: turns, memory, time and attempts. */
export class Downloader {
  readonly #config: MediaFetcherConfig;
  readonly #limits: MediaLimits;
  readonly #routes: Routes;
  readonly #turns: Limiter;
  readonly #memory: Limiter;

  constructor(config: MediaFetcherConfig, limits: MediaLimits, routes: Routes) {
    this.#config = config;
    this.#limits = limits;
    this.#routes = routes;
    const { globalMaxDownloads, globalMaxQueuedDownloads, globalMaxBufferedBytes } = limits;
    this.#turns = new Limiter('downloads', globalMaxDownloads, globalMaxQueuedDownloads);
    // Only running downloads wait for memory, so there are never more waiters than those.
    this.#memory = new Limiter('buffered bytes', globalMaxBufferedBytes, globalMaxDownloads);
  }

  /** What is going on, for metrics. */
  stats(): DownloadStats {
    return {
      activeDownloads: this.#turns.used,
      queuedDownloads: this.#turns.queued,
      bufferedBytes: this.#memory.used,
    };
  }

  /** Most bytes of an item: beyond the whole memory it could never be admitted. */
  maxBytes(modality: Modality, options: MediaFetchOptions): number {
    return Math.min(maxItemBytes(modality, options), this.#limits.globalMaxBufferedBytes);
  }

  /** A place for the bytes of an item, which its owner releases. */
  reserve(modality: Modality, options: MediaFetchOptions): Reservation {
    return new Reservation(this.#memory, this.maxBytes(modality, options));
  }

  /** One download with its deadline, from the wait for its turn to the verified bytes. */
  async run(source: URL, call: DownloadCall): Promise<MediaResult> {
    const { modality, options, signal } = call;
    const timeoutMs = options.downloadTimeoutMs;
    const startedAt = performance.now();
    const deadline = startedAt + timeoutMs;
    return withDeadline({ modality, timeoutMs, signal }, async (item) => {
      await this.#turns.acquire(1, item.signal);
      const turnAt = performance.now();
      try {
        let firstByteMs = 0;
        const result = await told(this.#config.onDownload, signal, (onHeaders) =>
          this.#attempts(source, call, {
            item,
            deadline,
            onHeaders: () => {
              firstByteMs = performance.now() - turnAt;
              onHeaders();
            },
          }),
        );
        const timing: MediaTiming = {
          queueMs: turnAt - startedAt,
          firstByteMs,
          downloadMs: performance.now() - turnAt,
        };
        return result.with({ timing });
      } finally {
        this.#turns.release(1);
      }
    });
  }

  #attempts(url: URL, call: DownloadCall, time: ItemTime): Promise<MediaResult> {
    const { retryPauseMs: pauseMs } = this.#limits;
    const { maxRetries = this.#limits.maxRetries } = call.options;
    const { item, deadline } = time;
    return withRetries({ maxRetries, pauseMs, deadline, signal: item.signal }, () =>
      this.#attempt(url, call, time),
    );
  }

  async #attempt(
    url: URL,
    { modality, options, copies, total, memory, load }: DownloadCall,
    { item, onHeaders }: ItemTime,
  ): Promise<MediaResult> {
    const { signal } = item;
    const {
      userAgent = 'llm-media-fetcher/1.0',
      allowHttpsDowngrade = false,
      originHeaders = [],
    } = this.#config;
    const { proxy } = this.#routes;
    const route = this.#routes.of(options);
    const answer = await download(url, {
      modality,
      policy: this.#routes.policy(options),
      limits: this.#limits,
      maxRedirects: options.maxRedirects ?? this.#limits.maxRedirects,
      dispatcher: route.dispatcher,
      resolveFirst: proxy === undefined ? undefined : route.resolve,
      trustRemoteDns: proxy?.trustRemoteDns === true,
      userAgent,
      allowHttpsDowngrade,
      originHeaders,
      conditions: load?.stored && validators(load.stored.entry),
      signal,
    });
    onHeaders();
    const share = new TotalShare(total);
    try {
      const read = (): Promise<Body> =>
        readBody(answer.response, {
          doing: `downloading ${modality}`,
          maxBytes: this.maxBytes(modality, options),
          copies,
          total: share,
          memory,
          limits: this.#limits,
          signal,
          abort: (reason) => {
            item.abort(reason);
          },
        });
      const body =
        load === undefined
          ? { ...(await read()), contentTypeHeader: typeHeader(answer) }
          : await loadBody(answer, load, read);
      const { contentTypeHeader } = body;
      const result = inspect(body, { modality, options, limits: this.#limits, contentTypeHeader });
      return result.with({ origin: originOf(answer) });
    } catch (error) {
      share.giveBack();
      memory.release();
      throw toMediaError(error, 'body', redactUrl(answer.url.href));
    }
  }
}

const typeHeader = ({ response }: Download): string | undefined =>
  singleHeader(response.headers, 'content-type');

const originOf = ({ response: { headers, statusCode }, url, redirects }: Download) => ({
  host: url.hostname,
  status: statusCode,
  redirects: redirects?.length ?? 0,
  etag: singleHeader(headers, 'etag'),
  lastModified: singleHeader(headers, 'last-modified'),
});
