import { TransportError, type UpstreamClient, requestIdHeader } from '@llm-d/gateway';
import { toBase64 } from '@llm-d/json-document';
import {
  BadUpstreamAnswerError,
  isMediaFault,
  type MediaContent,
  type MediaLimits,
  type MediaReference,
  type MediaSource,
  type RemoteMediaItem,
  type RequestContext,
  UpstreamError,
} from '@llm-d/pipeline';
import { MediaFetcherAnswer } from './media-fetcher-answer.ts';
import { type MediaFrame, MediaFrames } from './media-frames.ts';

/** Most items that a media fetcher takes at a time. */
const maxBatchItems = 64;
/** What an answer may take on its way, beside the downloads. */
const standardGraceMs = 5_000;

/** How the media fetcher is called. */
export interface RemoteMediaOptions {
  /** Name of the step, for errors and the timeline. */
  readonly step: string;
  readonly client: UpstreamClient;
  /** Bearer token; none when empty. */
  readonly token: string;
  /** Has the failures that a download in this process would throw, and counts what comes. */
  readonly media: Pick<MediaSource, 'faultOf' | 'countRemote'>;
  /** Time that an answer has beside its downloads, in milliseconds; 5000 when absent. */
  readonly graceMs?: number;
}

/** Nobody answered the call: the media may be got another way. */
export class MediaFetcherUnreachable extends Error {
  override readonly name = 'MediaFetcherUnreachable';
  /** What the client is told when there is no other way. */
  override readonly cause: Error;

  constructor(cause: Error) {
    super('the media fetcher is not reachable');
    this.cause = cause;
  }
}

/**
 * Has a media fetcher download references (media-fetcher.md 1.5) and reads its answer while it arrives. Fails as a download
 * in this process would; throws `MediaFetcherUnreachable` when nobody is there.
 */
export class RemoteMedia {
  readonly #options: RemoteMediaOptions;

  constructor(options: RemoteMediaOptions) {
    this.#options = options;
  }

  /** In order of the references; the first failure ends the others. `inlineBytes` count towards the total. */
  async fetchMany(
    references: readonly MediaReference[],
    limits: MediaLimits,
    ctx: RequestContext,
    inlineBytes: number,
  ): Promise<readonly MediaContent[]> {
    const contents: MediaContent[] = [];
    // What came with earlier batches counts like what came inline.
    let countedBytes = inlineBytes;
    for (let from = 0; from < references.length; from += maxBatchItems) {
      const batch = references.slice(from, from + maxBatchItems);
      const startMs = ctx.elapsedMs();
      const count = (item: MediaReference | undefined, end: RemoteMediaItem['end']): void => {
        if (item === undefined) return;
        const { modality } = item;
        this.#options.media.countRemote({ modality, durationMs: ctx.elapsedMs() - startMs, end });
      };
      try {
        const frames = await this.#fetchBatch(batch, from, { limits, countedBytes, ctx });
        for (const [i, { contentType, bytes }] of frames.entries()) {
          const content = { contentType, byteLength: bytes.length };
          countedBytes += bytes.length;
          contents.push({ ...content, base64: () => toBase64(bytes) });
          count(batch[i], content);
        }
      } catch (error) {
        if (ctx.signal.aborted) for (const item of batch) count(item, { code: 'media_cancelled' });
        else if (isMediaFault(error)) count(references[error.index ?? from], error);
        throw error;
      }
    }
    return contents;
  }

  /**
   * Rejects with the fault of the first reference whose text the fetcher refuses. It judges all texts before it asks an
   * origin, and the last one here is none that it could ask.
   */
  async check(
    references: readonly MediaReference[],
    limits: MediaLimits,
    ctx: RequestContext,
  ): Promise<void> {
    const judged = references.slice(0, maxBatchItems - 1);
    const end: MediaReference = { url: 'data:', modality: 'image', index: judged.length };
    try {
      await this.#fetchBatch([...judged, end], 0, { limits, countedBytes: 0, ctx });
    } catch (error) {
      const isEarlier = isMediaFault(error) && (error.index ?? judged.length) < judged.length;
      if (isEarlier) throw error;
    }
  }

  async #fetchBatch(
    references: readonly MediaReference[],
    firstIndex: number,
    call: BatchCall,
  ): Promise<readonly MediaFrame[]> {
    const { step, client, token, graceMs = standardGraceMs } = this.#options;
    const { ctx, limits, countedBytes } = call;
    const body = Buffer.from(JSON.stringify(batchBody(references, limits, countedBytes)));
    const entry = ctx.begin({ name: step, kind: 'leg' });
    entry.requestBytes = body.length;
    entry.responseBytes = 0;
    const answer = new MediaFetcherAnswer(
      new MediaFrames(references.length, limits.maxTotalDownloadBytes),
    );
    const ending = endingOf(ctx.signal, downloadsMs(references.length, limits) + graceMs);
    try {
      await client.stream(
        {
          path: '/v1/media/batch',
          headers: [
            ...['content-type', 'application/json', 'accept', 'application/x-media-frames'],
            ...[requestIdHeader, ctx.requestId, ...ctx.observedHeaders(entry)],
            ...(token === '' ? [] : ['authorization', `Bearer ${token}`]),
          ],
          body: { byteLength: body.length, chunks: [body] },
          signal: ending.signal,
          isRepeatable: true,
          counts: entry,
        },
        {
          start: (status, headers) => {
            entry.status = status;
            entry.headersMs = ctx.elapsedMs();
            return answer.start(status, headers);
          },
          data: (chunk) => {
            entry.responseBytes = (entry.responseBytes ?? 0) + chunk.length;
            try {
              answer.data(chunk);
            } catch (cause) {
              ending.abort(this.#invalid('the answer is not what was asked for', cause));
            }
          },
        },
      );
      const frames = this.#take(answer, firstIndex);
      ctx.finish(entry);
      return frames;
    } catch (error) {
      const failure =
        answer.status === undefined && isNobodyThere(error)
          ? new MediaFetcherUnreachable(error)
          : error;
      ctx.finish(entry, failure);
      throw failure;
    } finally {
      ending.release();
    }
  }

  #take(answer: MediaFetcherAnswer, firstIndex: number): readonly MediaFrame[] {
    const { step, media } = this.#options;
    const { status = 0 } = answer;
    if (status === 200) {
      try {
        return answer.frames.end();
      } catch (cause) {
        throw this.#invalid('the answer is not what was asked for', cause);
      }
    }
    const reported = answer.problem();
    if (reported?.code.startsWith('media_')) {
      const { origin_status: originStatus, cause_code: causeCode, index, ...rest } = reported;
      throw media.faultOf({
        ...rest,
        causeCode,
        originStatus: originStatus ?? undefined,
        index: index === undefined ? undefined : index + firstIndex,
      });
    }
    // Something in front of the fetcher says that it is not there.
    if (!reported && status >= 502 && status <= 504) {
      throw new MediaFetcherUnreachable(new UpstreamError(step, status));
    }
    throw this.#invalid(`the media fetcher refused the call (HTTP ${status})`, undefined);
  }

  #invalid(what: string, cause: unknown): BadUpstreamAnswerError {
    return new BadUpstreamAnswerError(this.#options.step, what, { cause });
  }
}

interface BatchCall {
  readonly limits: MediaLimits;
  /** Bytes of the request's total that are taken. */
  readonly countedBytes: number;
  readonly ctx: RequestContext;
}

function batchBody(
  references: readonly MediaReference[],
  limits: MediaLimits,
  countedBytes: number,
): object {
  const { maxDownloadBytes: most, maxModalityBytes: own, transform } = limits;
  return {
    items: references.map(({ url, modality }) => ({ url, modality })),
    options: {
      timeout_ms: limits.downloadTimeoutMs,
      max_bytes: {
        image: own?.image ?? most,
        video: own?.video ?? most,
        audio: own?.audio ?? most,
      },
      max_total_bytes: limits.maxTotalDownloadBytes,
      inline_bytes: countedBytes,
      max_concurrent: limits.maxConcurrentDownloads,
      max_redirects: limits.maxRedirects,
      max_retries: limits.maxRetries,
      allowed_domains: limits.allowedDomains,
      allowed_types: limits.allowedTypes,
      allow_private_networks: limits.allowPrivateNetworks,
      content_check: limits.contentCheck,
      strict_decode: limits.decodesStrictly,
      transcode_image_types: limits.transcodeImageTypes,
      cache: limits.cacheMode,
      transform: transform && {
        mode: transform.mode,
        factor: transform.factor,
        min_pixels: transform.minPixels,
        max_pixels: transform.maxPixels,
        output: transform.output,
        background: transform.background,
        bake_orientation: transform.bakesOrientation,
      },
    },
  };
}

/** Longest time for the downloads of a batch: each of them may take its whole time. */
function downloadsMs(count: number, limits: MediaLimits): number {
  const rounds = Math.ceil(count / limits.maxConcurrentDownloads);
  return rounds * limits.downloadTimeoutMs;
}

/** Ends a call with the request, at its deadline, or when its answer makes no sense. */
function endingOf(request: AbortSignal, limitMs: number) {
  const ending = new AbortController();
  const onAbort = (): void => ending.abort(request.reason);
  if (request.aborted) onAbort();
  request.addEventListener('abort', onAbort, { once: true });
  const timer = setTimeout(() => ending.abort(new TransportError('timeout')), limitMs);
  return {
    signal: ending.signal,
    abort: (reason: Error) => ending.abort(reason),
    release: () => {
      clearTimeout(timer);
      request.removeEventListener('abort', onAbort);
    },
  };
}

/** Whether a call failed before anybody can have worked on it. */
function isNobodyThere(error: unknown): error is TransportError {
  if (!(error instanceof TransportError)) return false;
  const { fault, cause } = error;
  const isSlowConnect =
    cause instanceof Error && 'code' in cause && cause.code === 'UND_ERR_CONNECT_TIMEOUT';
  return fault === 'connect' || fault === 'reset' || isSlowConnect;
}
