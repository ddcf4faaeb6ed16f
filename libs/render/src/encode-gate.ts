import { overloaded } from './errors.ts';

/** Bounds of an {@link EncodeGate}. */
export interface EncodeLimits {
  /** Tasks at the same time. */
  readonly running: number;
  /** Tasks that wait for their turn; more are refused. */
  readonly waiting: number;
}

/** Bounds how many long texts are tokenized at once, first come first served. */
export class EncodeGate {
  private readonly limits: EncodeLimits;
  private running = 0;
  private readonly waiting = new Set<() => void>();

  constructor(limits: EncodeLimits) {
    this.limits = limits;
  }

  /** Tasks that wait for their turn. */
  get queued(): number {
    return this.waiting.size;
  }

  /**
   * Runs `task` when a place is free. Rejects with a 503 when too many wait already, and with the signal's reason when
   * it aborts before the task starts.
   */
  async run<T>(task: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    signal?.throwIfAborted();
    if (this.running < this.limits.running) this.running++;
    // The place of the task that ends is handed over, so it is not counted again.
    else await this.turn(signal);
    try {
      return await task();
    } finally {
      const [next] = this.waiting;
      if (next === undefined) this.running--;
      else next();
    }
  }

  private async turn(signal: AbortSignal | undefined): Promise<void> {
    if (this.waiting.size >= this.limits.waiting) {
      throw overloaded('Too many prompts are waiting to be tokenized.');
    }
    await new Promise<void>((resolve, reject) => {
      const leave = (): void => {
        this.waiting.delete(start);
        signal?.removeEventListener('abort', onAbort);
      };
      const start = (): void => {
        leave();
        resolve();
      };
      const onAbort = (): void => {
        leave();
        reject(abortReason(signal));
      };
      this.waiting.add(start);
      signal?.addEventListener('abort', onAbort);
    });
  }
}

/** What a signal was aborted with. */
export function abortReason(signal: AbortSignal | undefined): Error {
  // Ours are aborted without a reason or with an error; its class may come from another realm.
  return (signal?.reason as Error | undefined) ?? new Error('aborted');
}
