import { abortReason } from '../encode-gate.ts';
import { overloaded, RenderError } from '../errors.ts';
import { RenderCache } from '../render-cache.ts';
import { base64Length, type TensorJob } from './build-tensor.ts';
import { blobBytes } from './tensor-blob.ts';
import { TensorThread } from './tensor-thread.ts';

/** Bounds of a {@link TensorPool}. */
export interface TensorLimits {
  readonly threads: number;
  /** Images that wait for a thread; more are refused with 503. */
  readonly waitingImages: number;
  /** Base64 bytes of all answers that are being built; more are refused with 503. */
  readonly pendingBytes: number;
  /** Base64 bytes of one answer; more are refused with 413. */
  readonly answerBytes: number;
  /** Longest time for one image, from its start; then its thread is stopped. */
  readonly imageTimeoutMs: number;
}

const DEFAULT_LIMITS: TensorLimits = {
  threads: 1,
  waitingImages: 256,
  pendingBytes: 1 << 30,
  answerBytes: 256 << 20,
  imageTimeoutMs: 30_000,
};

/** A job that waits for a thread. */
interface Waiting {
  /** The jobs of its request. */
  readonly jobs: readonly TensorJob[];
  readonly resolve: (thread: TensorThread) => void;
  readonly reject: (reason: Error) => void;
}

/** Builds image tensors on threads of its own, which start when they are first needed. */
export class TensorPool {
  private readonly limits: TensorLimits;
  private readonly cache: RenderCache;
  private readonly threads = new Set<TensorThread>();
  private readonly idle: TensorThread[] = [];
  private waiting: Waiting[] = [];
  private pendingBytes = 0;
  private isClosed = false;
  /** Threads that an image broke or that were stopped over one. */
  restarts = 0;

  constructor(
    limits: Partial<TensorLimits> = {},
    cache: RenderCache = new RenderCache({ tensorBytes: 0 }),
  ) {
    this.limits = { ...DEFAULT_LIMITS, ...limits };
    this.cache = cache;
  }

  /** Images that wait for a thread. */
  get queued(): number {
    return this.waiting.length;
  }

  /**
   * The blobs of one request's images in base64, in order. Rejects with a `RenderError`: the refusal of an image, 413
   * for too much at once, 503 when too much waits or the pool closes, 504 for an image that takes too long. When the
   * signal aborts, images that wait are dropped, and it rejects with the signal's reason; one that a thread works on
   * is finished for nobody.
   */
  async build(jobs: readonly TensorJob[], signal?: AbortSignal): Promise<Uint8Array[]> {
    signal?.throwIfAborted();
    const bytes = jobs.reduce((sum, job) => sum + base64Bytes(job), 0);
    this.admit(jobs.length, bytes);
    this.pendingBytes += bytes;
    const runs = jobs.map((job) => this.cache.tensor(job.cacheKey, () => this.run(jobs, job)));
    void Promise.allSettled(runs).then(() => {
      this.pendingBytes -= bytes;
    });
    const gone = Promise.withResolvers<never>();
    const onAbort = (): void => {
      gone.reject(abortReason(signal));
    };
    signal?.addEventListener('abort', onAbort);
    try {
      return await Promise.race([Promise.all(runs), gone.promise]);
    } catch (reason) {
      // When one image fails, or the caller has left, nobody reads the others.
      this.drop(jobs);
      throw reason;
    } finally {
      signal?.removeEventListener('abort', onAbort);
    }
  }

  private drop(jobs: readonly TensorJob[]): void {
    const dropped = this.waiting.filter((entry) => entry.jobs === jobs);
    this.waiting = this.waiting.filter((entry) => entry.jobs !== jobs);
    const reason = new Error('nobody waits for this image');
    for (const { reject } of dropped) reject(reason);
  }

  /** Stops all threads; what runs and what waits is rejected with a 503. */
  async close(): Promise<void> {
    this.isClosed = true;
    const reason = overloaded('The server is shutting down.');
    for (const { reject } of this.waiting.splice(0)) reject(reason);
    await Promise.all([...this.threads].map((thread) => thread.end(reason)));
  }

  private admit(images: number, bytes: number): void {
    const { answerBytes, pendingBytes, waitingImages } = this.limits;
    if (bytes > answerBytes) {
      throw new RenderError(
        413,
        'RequestEntityTooLargeError',
        `The image tensors take ${bytes} bytes of the answer, the limit is ${answerBytes}. Send fewer or smaller images, lower max_pixels, or leave the tensors out with mm_payload "none".`,
      );
    }
    const isFull =
      this.waiting.length + images > waitingImages || this.pendingBytes + bytes > pendingBytes;
    if (this.isClosed || isFull) throw overloaded('Too many images are waiting to be processed.');
  }

  private async run(jobs: readonly TensorJob[], job: TensorJob): Promise<Uint8Array> {
    const thread = await new Promise<TensorThread>((resolve, reject) => {
      this.waiting.push({ jobs, resolve, reject });
      this.dispatch();
    });
    try {
      return await thread.run(job, this.limits.imageTimeoutMs);
    } finally {
      if (thread.isAlive) this.idle.push(thread);
      else if (this.threads.delete(thread) && !this.isClosed) this.restarts += 1;
      this.dispatch();
    }
  }

  /** Hands free threads to those who wait, first come first served. */
  private dispatch(): void {
    while (this.waiting.length > 0) {
      const thread = this.idle.pop() ?? this.start();
      if (thread === undefined) return;
      this.waiting.shift()?.resolve(thread);
    }
  }

  private start(): TensorThread | undefined {
    if (this.isClosed || this.threads.size >= this.limits.threads) return undefined;
    const thread = new TensorThread();
    this.threads.add(thread);
    return thread;
  }
}

function base64Bytes({ grid, settings }: TensorJob): number {
  return base64Length(blobBytes(grid, settings.patchSize, settings.dtype));
}
