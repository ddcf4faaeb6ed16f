import { availableParallelism } from 'node:os';

import { EncodeGate } from './encode-gate.ts';
import { TensorPool } from './pixels/tensor-pool.ts';
import { type CacheLimits, RenderCache } from './render-cache.ts';

/** How much work a process takes on at a time, for all its models together. */
export interface WorkerLimits {
  /** Long texts that are tokenized at once; default one fewer than there are cores. */
  readonly text?: number;
  /** Threads that build image tensors; default one fewer than there are cores. */
  readonly image?: number;
  /** Texts, and apart from them images, that wait for their turn; more are refused with 503. Default 256. */
  readonly queue?: number;
  /** Memory for decoded images and tensors on their way; more are refused with 503. Default 1 GiB. */
  readonly memoryBytes?: number;
  readonly cache?: CacheLimits;
  /** Longest time for one image; then its thread is stopped. Default 30 seconds. */
  readonly imageTimeoutMs?: number;
}

/** The bounded places where long texts are tokenized and images are decoded, and what is remembered of it. */
export class RenderWorkers {
  readonly cache: RenderCache;
  readonly gate: EncodeGate;
  readonly tensors: TensorPool;

  constructor(limits: WorkerLimits = {}) {
    // One core stays free for the event loop.
    const spare = Math.max(1, availableParallelism() - 1);
    this.cache = new RenderCache(limits.cache);
    const queue = limits.queue ?? 256;
    this.gate = new EncodeGate({ running: limits.text ?? spare, waiting: queue });
    this.tensors = new TensorPool(
      {
        threads: limits.image ?? spare,
        waitingImages: queue,
        ...(limits.memoryBytes !== undefined && { memoryBytes: limits.memoryBytes }),
        ...(limits.imageTimeoutMs !== undefined && { imageTimeoutMs: limits.imageTimeoutMs }),
      },
      this.cache,
    );
  }

  /** Texts and images that wait for their turn. */
  get queued(): { readonly texts: number; readonly images: number } {
    return { texts: this.gate.queued, images: this.tensors.queued };
  }

  /** Image threads that were replaced because an image broke them or took too long. */
  get restarts(): number {
    return this.tensors.restarts;
  }

  /** Stops the image threads; what they work on is rejected with a 503. */
  async close(): Promise<void> {
    await this.tensors.close();
  }
}
