import { MediaError } from './media-error.ts';

interface Waiter {
  readonly amount: number;
  readonly grant: () => void;
}

/**
 * A weighted semaphore, first come first served, with a bounded queue. Waiting in it is this service's own
 * fault, so a full queue and a deadline that passes while waiting are `media_overloaded`.
 */
export class Limiter {
  readonly #what: string;
  readonly #capacity: number;
  readonly #maxQueued: number;
  readonly #queue: Waiter[] = [];
  #used = 0;

  constructor(what: string, capacity: number, maxQueued: number) {
    this.#what = what;
    this.#capacity = capacity;
    this.#maxQueued = maxQueued;
  }

  /** Units handed out. */
  get used(): number {
    return this.#used;
  }

  /** Callers that wait. */
  get queued(): number {
    return this.#queue.length;
  }

  /** Takes `amount` units, at most the capacity, or rejects with MediaError; `signal` ends the wait. */
  async acquire(amount: number, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    if (this.#queue.length === 0 && this.#used + amount <= this.#capacity) {
      this.#used += amount;
      return;
    }
    if (this.#queue.length >= this.#maxQueued) {
      throw this.#overloaded();
    }
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const grant = (): void => {
      signal.removeEventListener('abort', leave);
      resolve();
    };
    const waiter: Waiter = { amount, grant };
    const leave = (): void => {
      this.#queue.splice(this.#queue.indexOf(waiter), 1);
      const reason: unknown = signal.reason;
      reject(
        reason instanceof MediaError && reason.code !== 'media_timeout'
          ? reason
          : this.#overloaded(),
      );
      // The one who left may have been the large one that held up smaller ones.
      this.#grantNext();
    };
    this.#queue.push(waiter);
    signal.addEventListener('abort', leave, { once: true });
    await promise;
  }

  /** Gives units back. */
  release(amount: number): void {
    this.#used -= amount;
    this.#grantNext();
  }

  #grantNext(): void {
    for (;;) {
      const next = this.#queue[0];
      if (next === undefined || this.#used + next.amount > this.#capacity) {
        return;
      }
      this.#queue.shift();
      this.#used += next.amount;
      next.grant();
    }
  }

  #overloaded(): MediaError {
    return new MediaError('media_overloaded', 'downloading media: too many downloads at once', {
      logDetail: `${this.#what}: ${this.#used} of ${this.#capacity} in use, ${this.#queue.length} waiting`,
    });
  }
}
