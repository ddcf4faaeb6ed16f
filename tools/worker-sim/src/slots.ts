import { ApiError } from './api-error.ts';

/** Admission: so many requests run, so many wait in order, the rest is refused with 503. */
export class Slots {
  running = 0;
  readonly #waiting = new Set<() => void>();
  readonly #limits: () => { maxNumSeqs: number; maxWaiting: number };

  constructor(limits: () => { maxNumSeqs: number; maxWaiting: number }) {
    this.#limits = limits;
  }

  get waiting(): number {
    return this.#waiting.size;
  }

  /** Resolves with the function that frees the slot. Rejects when full, or when the client leaves. */
  async take(signal: AbortSignal): Promise<() => void> {
    signal.throwIfAborted();
    const { maxNumSeqs, maxWaiting } = this.#limits();
    if (this.running >= maxNumSeqs) {
      if (this.#waiting.size >= maxWaiting) {
        throw new ApiError(503, 'The waiting queue is full', { headers: { 'retry-after': '1' } });
      }
      // The slot is handed over by the one who leaves, so `running` does not change in between.
      await this.#turn(signal);
    } else {
      this.running += 1;
    }
    return () => this.#free();
  }

  #turn(signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const wake = (): void => {
        signal.removeEventListener('abort', onAbort);
        resolve();
      };
      const onAbort = (): void => {
        this.#waiting.delete(wake);
        reject(signal.reason as Error);
      };
      signal.addEventListener('abort', onAbort, { once: true });
      this.#waiting.add(wake);
    });
  }

  #free(): void {
    const [next] = this.#waiting;
    if (next) {
      this.#waiting.delete(next);
      next();
    } else {
      this.running -= 1;
    }
  }
}
