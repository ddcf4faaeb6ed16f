import { availableParallelism } from 'node:os';

import { overloaded } from './errors.ts';

/** Long encodings at the same time: one core stays free for the event loop. */
const MAX_RUNNING = Math.max(1, availableParallelism() - 1);
/** Long encodings that wait for their turn; more are refused. */
const MAX_WAITING = 256;

/** Bounds how many long texts are tokenized at once, first come first served. */
export class EncodeGate {
  private running = 0;
  private readonly waiting: (() => void)[] = [];

  /** Runs `task` when a place is free. Rejects with a 503 when too many wait already. */
  async run<T>(task: () => Promise<T>): Promise<T> {
    if (this.running >= MAX_RUNNING) {
      if (this.waiting.length >= MAX_WAITING) {
        throw overloaded('Too many prompts are waiting to be tokenized.');
      }
      // The place of the task that ends is handed over, so it is not counted again.
      await new Promise<void>((resolve) => this.waiting.push(resolve));
    } else {
      this.running++;
    }
    try {
      return await task();
    } finally {
      const next = this.waiting.shift();
      if (next === undefined) this.running--;
      else next();
    }
  }
}
