import { createHash } from 'node:crypto';
import { availableParallelism } from 'node:os';
import type { Sharp } from 'sharp';
import { digestAside } from '../cache/keys.ts';
import { type MediaCache } from '../cache/media-cache.ts';
import { SingleFlight } from '../cache/single-flight.ts';
import { imageSize } from '../image-size.ts';
import { Limiter } from '../limiter.ts';
import { MediaError, type MediaErrorCode } from '../media-error.ts';
import { MediaResult, type MediaTransform } from '../media-result.ts';
import { type MediaFetchOptions, type MediaLimits } from '../options.ts';
import { type ImageLibrary, loadSharp } from './load-sharp.ts';
import { type ImagePlan, planOf } from './plan.ts';

/** Waiting images hold memory that their calls have reserved, so their number is bounded by that of calls. */
const maxQueued = 512;

/** Our own time is over or our queue is full: a reason to leave the image as it is. */
const tooSlow: ReadonlySet<MediaErrorCode> = new Set<MediaErrorCode>([
  'media_timeout',
  'media_overloaded',
]);

/** Makes images smaller in sharp's threads, a bounded number at a time. */
export class ImageTransformer {
  readonly #limits: MediaLimits;
  readonly #cache: MediaCache | undefined;
  readonly #turns: Limiter;
  readonly #flights = new SingleFlight<MediaResult>();

  constructor(limits: MediaLimits, cache: MediaCache | undefined) {
    this.#limits = limits;
    this.#cache = cache;
    const parallel = limits.maxParallelTransforms || Math.max(2, availableParallelism());
    this.#turns = new Limiter('images', parallel, maxQueued);
  }

  /**
   * The image as the options want it, the same object when they want nothing. What cannot be decoded stays as it
   * is, except with `strict`. Rejects with MediaError for a refused image and when the signal aborts.
   */
  async apply(
    source: MediaResult,
    options: MediaFetchOptions,
    signal: AbortSignal,
  ): Promise<MediaResult> {
    const plan = planOf(source, options, this.#limits);
    if (plan === undefined) {
      return source;
    }
    const startedAt = performance.now();
    const library = await loadSharp();
    const sourceSha256 = await digestAside(source.bytes);
    const fact = (result: MediaTransform['result']): { transform: MediaTransform } => ({
      transform: {
        result,
        durationMs: performance.now() - startedAt,
        sourceBytes: source.byteLength,
        sourceSha256,
      },
    });
    if (plan.kind === 'unchanged') {
      return source.with(fact('unchanged'));
    }
    const name = `t:${sourceSha256}:${transformKey(plan, library)}`;
    const stored = await this.#cache?.derived(name);
    if (stored !== undefined) {
      return resultOf(source, stored.bytes, stored.contentType).with(fact('cached'));
    }
    try {
      const { value } = await this.#flights.run(
        name,
        (flight) => this.#run(source, plan, library, flight),
        signal,
      );
      if (value.bytes === source.bytes) {
        return source.with(fact('unchanged'));
      }
      const ttlMs = source.facts.cache?.ttlMs ?? 0;
      this.#cache?.keepDerived(name, value, ttlMs);
      return resultOf(source, value.bytes, value.contentType).with(fact(plan.kind));
    } catch (error) {
      const isLate = error instanceof MediaError && tooSlow.has(error.code);
      if (!isLate && (signal.aborted || error instanceof MediaError)) {
        throw error;
      }
      if (plan.isRefused || options.contentCheck === 'strict') {
        throw new MediaError('media_content_invalid', 'downloading image: it cannot be decoded', {
          cause: error,
        });
      }
      return source.with(fact('failed'));
    }
  }

  /** Decodes an image once; throws MediaError when it is not whole. */
  async verify(source: MediaResult, signal: AbortSignal): Promise<void> {
    const library = await loadSharp();
    await this.#turn(signal, async () => {
      try {
        await this.#open(source, library).timeout(this.#timeout()).stats();
      } catch (cause) {
        throw new MediaError('media_content_invalid', 'downloading image: it cannot be decoded', {
          cause,
        });
      }
    });
  }

  async #run(
    source: MediaResult,
    plan: ImagePlan,
    library: ImageLibrary,
    signal: AbortSignal,
  ): Promise<MediaResult> {
    return this.#turn(signal, async () => {
      const image = this.#open(source, library).autoOrient().timeout(this.#timeout());
      const { hasAlpha } = await image.metadata();
      const output = plan.outputFor(hasAlpha);
      const { size } = plan;
      if (size !== undefined) {
        image.resize({ ...size, fit: 'fill', kernel: 'cubic' });
      }
      if (hasAlpha && output === 'jpeg') {
        image.flatten({ background: plan.background });
      }
      const bytes = await encode(image.toColourspace('srgb'), output).toBuffer();
      const isBetter = plan.isNeeded || bytes.length < source.byteLength;
      const type = output === 'webp_lossless' ? 'image/webp' : `image/${output}`;
      return isBetter ? new MediaResult(bytes, type) : source;
    });
  }

  #open(source: MediaResult, library: ImageLibrary): Sharp {
    const isAvif = source.contentType === 'image/avif';
    return library.open(source.bytes, source.contentType, {
      limitInputPixels: isAvif ? this.#limits.maxAvifDecodePixels : this.#limits.maxImagePixels,
      failOn: 'error',
      pages: 1,
      sequentialRead: true,
    });
  }

  #timeout(): { seconds: number } {
    return { seconds: Math.ceil(this.#limits.transformTimeoutMs / 1000) };
  }

  async #turn<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    await this.#turns.acquire(1, signal);
    try {
      return await work();
    } finally {
      this.#turns.release(1);
    }
  }
}

function encode(image: Sharp, output: 'jpeg' | 'webp_lossless' | 'png'): Sharp {
  switch (output) {
    case 'jpeg':
      return image.jpeg({ quality: 95, chromaSubsampling: '4:4:4' });
    case 'webp_lossless':
      return image.webp({ lossless: true, effort: 1 });
    case 'png':
      return image.png();
  }
}

/** The transformed image with what is known of its source. */
function resultOf(source: MediaResult, bytes: Buffer, contentType: string): MediaResult {
  const size = imageSize(contentType, bytes);
  return new MediaResult(bytes, contentType, { ...source.facts, size });
}

/** Names everything that decides which bytes come out. */
const transformKey = ({ parameters }: ImagePlan, { versions }: ImageLibrary): string =>
  createHash('sha256')
    .update(JSON.stringify([parameters, versions]))
    .digest('hex');
