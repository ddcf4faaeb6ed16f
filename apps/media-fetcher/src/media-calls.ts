import { MediaError, type MediaFetcher, type MediaFetchOptions, type MediaRef } from '@llm-d/media';
import { type Logger } from '@llm-d/telemetry';
import { type DigestedMedia, digested } from './describe-media.ts';

/** How one item of a call ended. */
export type ItemOutcome =
  | { readonly index: number; readonly item: DigestedMedia }
  | { readonly index: number; readonly error: MediaError };

/** One call of the API. */
export interface MediaCall {
  readonly requestId: string;
  readonly options: MediaFetchOptions;
  readonly signal: AbortSignal;
}

/** Failures that the address and URL rules are about: an operator wants to know of them. */
const audited = new Set(['media_address_blocked', 'media_redirect_blocked']);
/** Warnings about them in one second; whoever tries addresses must not fill the log. The rest is at level info. */
const maxWarnings = 10;

/** Makes fetches with what is logged of them. */
export class MediaCalls {
  readonly #fetcher: MediaFetcher;
  readonly #ceiling: MediaFetchOptions;
  readonly #logger: Logger;
  #warnedSecond = 0;
  #warnings = 0;

  /** `ceiling` is what the configuration allows every call at most. */
  constructor(fetcher: MediaFetcher, ceiling: MediaFetchOptions, logger: Logger) {
    this.#fetcher = fetcher;
    this.#ceiling = ceiling;
    this.#logger = logger;
  }

  /** All items in their order. The first failure ends the others and is thrown, with its index. */
  async all(refs: readonly MediaRef[], call: MediaCall): Promise<DigestedMedia[]> {
    const startedAt = performance.now();
    try {
      for (const [index, ref] of refs.entries()) this.#checkStatically(ref, index);
      const results = await this.#fetcher.fetchMany(refs, call.options, call.signal);
      const known = new Map(
        [...new Set(results)].map((media) => [media, digested(media, startedAt)] as const),
      );
      return results.flatMap((media, index) => {
        const item = known.get(media);
        if (item) this.#fetched(item, index, refs[index], call);
        return item ?? [];
      });
    } catch (error) {
      const failure = toMediaError(error);
      this.#failed(failure, failure.index ?? 0, refs[failure.index ?? 0], startedAt, call);
      throw failure;
    }
  }

  /** Every item for itself, whatever becomes of the others; in their order, equal ones are fetched once. */
  each(refs: readonly MediaRef[], call: MediaCall): Promise<ItemOutcome>[] {
    const { options } = call;
    let bytesLeft = options.maxTotalDownloadBytes;
    const started = new Map<string, Promise<DigestedMedia>>();
    const fetch = async (ref: MediaRef): Promise<DigestedMedia> => {
      const startedAt = performance.now();
      this.#checkStatically(ref, 0);
      return digested(await this.#fetcher.fetch(ref, options, call.signal), startedAt);
    };
    const turns = new Turns(options.maxConcurrentDownloads);
    return refs.map(async (ref, index) => {
      const startedAt = performance.now();
      const key = `${ref.modality} ${ref.url}`;
      const fetching = started.get(key) ?? turns.run(() => fetch(ref));
      started.set(key, fetching);
      try {
        const item = await fetching;
        bytesLeft -= item.media.byteLength;
        if (bytesLeft < 0) {
          const limit = options.maxTotalDownloadBytes;
          throw new MediaError(
            'media_total_too_large',
            `downloading media: all items together exceed ${limit} bytes`,
            { limit, actual: limit - bytesLeft },
          );
        }
        this.#fetched(item, index, ref, call);
        return { index, item };
      } catch (thrown) {
        const error = toMediaError(thrown);
        this.#failed(error, index, ref, startedAt, call);
        return { index, error };
      }
    });
  }

  /** By the rules of the configuration alone: a host that a caller lists is not excused from them. */
  #checkStatically({ url }: MediaRef, index: number): void {
    if (/^data:/i.test(url)) return;
    try {
      this.#fetcher.checkUrl(url, this.#ceiling);
    } catch (error) {
      if (error instanceof MediaError) error.index = index;
      throw error;
    }
  }

  #fetched(item: DigestedMedia, index: number, ref: MediaRef | undefined, call: MediaCall): void {
    const { media, totalMs } = item;
    const modality = ref?.modality ?? 'image';
    this.#logger.info(
      {
        ...{ request_id: call.requestId, index, modality, host: media.facts.origin?.host },
        ...{ bytes: media.byteLength, content_type: media.contentType },
        ...{ cache: media.facts.cache?.status, hops: media.facts.origin?.redirects },
        ms: Math.round(totalMs),
      },
      'fetched',
    );
  }

  #failed(
    error: MediaError,
    index: number,
    ref: MediaRef | undefined,
    startedAt: number,
    call: MediaCall,
  ): void {
    const modality = ref?.modality ?? 'image';
    const { code, logDetail, originStatus, causeCode, hop } = error;
    const fields = {
      ...{ request_id: call.requestId, index, modality, code, cause_code: causeCode, hop },
      ...{ origin_status: originStatus, detail: logDetail },
      ms: Math.round(performance.now() - startedAt),
    };
    if (code === 'media_internal')
      this.#logger.error({ ...fields, err: error.cause }, 'not fetched');
    else if (audited.has(code) && this.#mayWarn()) this.#logger.warn(fields, 'not fetched');
    else this.#logger.info(fields, 'not fetched');
  }

  #mayWarn(): boolean {
    const second = Math.floor(performance.now() / 1_000);
    if (second !== this.#warnedSecond) [this.#warnedSecond, this.#warnings] = [second, 0];
    return ++this.#warnings <= maxWarnings;
  }
}

function toMediaError(error: unknown): MediaError {
  if (error instanceof MediaError) return error;
  return new MediaError('media_internal', 'downloading media: internal failure', { cause: error });
}

/** Lets a few run at a time, first come first served. */
class Turns {
  readonly #waiting: (() => void)[] = [];
  #free: number;

  constructor(count: number) {
    this.#free = count;
  }

  async run<T>(work: () => Promise<T>): Promise<T> {
    if (this.#free > 0) this.#free -= 1;
    else await new Promise<void>((resolve) => this.#waiting.push(resolve));
    try {
      return await work();
    } finally {
      const next = this.#waiting.shift();
      if (next) next();
      else this.#free += 1;
    }
  }
}
