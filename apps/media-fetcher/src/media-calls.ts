import {
  type EndedItem,
  MediaError,
  type MediaFetcher,
  type MediaFetchOptions,
  MediaLog,
  type MediaRef,
} from '@llm-d/media';
import { type Logger, type RequestTrace } from '@llm-d/telemetry';
import { type DigestedMedia, digested } from './describe-media.ts';

/** How one item of a call ended. */
export type ItemOutcome =
  | { readonly index: number; readonly item: DigestedMedia }
  | { readonly index: number; readonly error: MediaError };

/** One call of the API. */
export interface MediaCall {
  readonly requestId: string;
  readonly trace: RequestTrace | undefined;
  readonly options: MediaFetchOptions;
  readonly signal: AbortSignal;
}

/** Makes fetches with what is logged and traced of them. */
export class MediaCalls {
  readonly #fetcher: MediaFetcher;
  readonly #logger: Logger;
  readonly #log = new MediaLog();

  constructor(fetcher: MediaFetcher, logger: Logger) {
    this.#fetcher = fetcher;
    this.#logger = logger;
  }

  /** All items in their order. The first failure ends the others and is thrown, with its index. */
  async all(refs: readonly MediaRef[], call: MediaCall): Promise<DigestedMedia[]> {
    const startedAt = performance.now();
    const { options, signal } = call;
    try {
      const results = await this.#fetcher.fetchMany(refs, options, signal, (item) =>
        this.#ended(item, call),
      );
      const known = new Map(
        [...new Set(results)].map((media) => [media, digested(media, startedAt)] as const),
      );
      return results.flatMap((media) => known.get(media) ?? []);
    } catch (error) {
      const failure = toMediaError(error);
      // What is about no item has no line yet.
      if (failure.index === undefined) {
        const ms = Math.round(performance.now() - startedAt);
        this.#log.failed(this.#logger, failure, { ...idsOf(call), ms });
      }
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
      return digested(await this.#fetcher.fetch(ref, options, call.signal), startedAt);
    };
    const turns = new Turns(options.maxConcurrentDownloads);
    return refs.map(async (ref, index) => {
      const startedAt = performance.now();
      const key = `${ref.modality} ${ref.url}`;
      const fetching = started.get(key) ?? turns.run(() => fetch(ref));
      started.set(key, fetching);
      const ended = (result?: DigestedMedia['media'], error?: MediaError): void => {
        const durationMs = performance.now() - startedAt;
        this.#ended({ ref, indices: [index], result, error, durationMs }, call);
      };
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
        ended(item.media);
        return { index, item };
      } catch (thrown) {
        const error = toMediaError(thrown);
        ended(undefined, error);
        return { index, error };
      }
    });
  }

  #ended(item: EndedItem, call: MediaCall): void {
    this.#log.itemEnded(this.#logger, item, idsOf(call));
    const { ref, result, error, durationMs } = item;
    call.trace?.record({
      name: 'media',
      durationMs,
      error: error && { type: error.code, message: error.safeMessage },
      attributes: {
        'llm_d.media.modality': ref.modality,
        'llm_d.media.type': result?.contentType,
        'llm_d.media.size': result?.byteLength,
        'llm_d.media.cache': result?.facts.cache?.status,
        'llm_d.media.redirects': result?.facts.origin?.redirects,
      },
    });
  }
}

const idsOf = ({ requestId, trace }: MediaCall) => ({ request_id: requestId, ...trace?.ids });

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
