import { abortReason } from '../encode-gate.ts';
import { overloaded, RenderError } from '../errors.ts';
import { RenderCache, type Tensor } from '../render-cache.ts';
import { type RenderCaller } from '../render-notes.ts';
import { base64Length } from './base64-text.ts';
import { type TensorJob } from './build-tensor.ts';
import { SpareMemory } from './spare-memory.ts';
import { blobFrame } from './tensor-blob.ts';
import { TensorThread } from './tensor-thread.ts';

/** Bounds of a {@link TensorPool}. */
export interface TensorLimits {
  readonly threads: number;
  /** Images that wait for a thread; more are refused with 503. */
  readonly waitingImages: number;
  /** What decoded images and base64 text of all answers that are being built may take; more are refused with 503. */
  readonly memoryBytes: number;
  /** Base64 bytes of one answer; more are refused with 413. */
  readonly answerBytes: number;
  /** Longest time for one image, from its start; then its thread is stopped. */
  readonly imageTimeoutMs: number;
}

const DEFAULT_LIMITS: TensorLimits = {
  threads: 1,
  waitingImages: 256,
  memoryBytes: 1 << 30,
  answerBytes: 256 << 20,
  imageTimeoutMs: 30_000,
};

/** Memory per pixel of an image on its way: decoded, resized, and what the decoder needs. */
const BYTES_PER_PIXEL = 8;

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
  private readonly spare = new SpareMemory();
  private usedBytes = 0;
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
  async build(
    jobs: readonly TensorJob[],
    { signal, notes, tenant = '' }: RenderCaller = {},
  ): Promise<Tensor[]> {
    signal?.throwIfAborted();
    const memory = this.admit(jobs);
    this.usedBytes += memory;
    const runs = jobs.map((job) =>
      this.cache.tensor(
        job.cacheKey === undefined ? undefined : `${tenant} ${job.cacheKey}`,
        () => this.run(jobs, job),
        notes,
      ),
    );
    void Promise.allSettled(runs).then(() => {
      this.usedBytes -= memory;
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

  /** Takes the memory of blobs back that nobody reads any more; those of others stay as they are. */
  recycle(blobs: readonly Tensor[]): void {
    for (const blob of blobs) {
      if (!this.cache.isShared(blob)) this.spare.put(blob.buffer);
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

  /** The memory that jobs may take; throws when that is too much. */
  private admit(jobs: readonly TensorJob[]): number {
    const { answerBytes, memoryBytes, waitingImages } = this.limits;
    const bytes = jobs.reduce((sum, job) => sum + base64Bytes(job), 0);
    const pixels = jobs.reduce((sum, job) => sum + job.pixels, 0);
    const memory = bytes + pixels * BYTES_PER_PIXEL;
    if (bytes > answerBytes) throw tooLarge(`take ${bytes} bytes of the answer`, answerBytes);
    if (memory > memoryBytes) throw tooLarge(`need ${memory} bytes of memory`, memoryBytes);
    const isFull =
      this.waiting.length + jobs.length > waitingImages || this.usedBytes + memory > memoryBytes;
    if (this.isClosed || isFull) throw overloaded('Too many images are waiting to be processed.');
    return memory;
  }

  private async run(jobs: readonly TensorJob[], job: TensorJob): Promise<Tensor> {
    const thread = await new Promise<TensorThread>((resolve, reject) => {
      this.waiting.push({ jobs, resolve, reject });
      this.dispatch();
    });
    try {
      return await thread.run(job, this.limits.imageTimeoutMs, this.spare.take(base64Bytes(job)));
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
  return base64Length(blobFrame(grid, settings).byteLength);
}

function tooLarge(what: string, limit: number): RenderError {
  return new RenderError(
    413,
    'RequestEntityTooLargeError',
    `The image tensors ${what}, the limit is ${limit}. Send fewer or smaller images, lower max_pixels, or leave the tensors out with mm_payload "none".`,
  );
}
