interface Waiter {
  wake(): void;
  isCancelled: boolean;
}

const tickMs = 2;

/**
 * One coarse tick for all streams: thousands of streams with a timer per token would spend the CPU
 * on timers. Runs only while somebody waits.
 */
export class Clock {
  readonly #due = new Map<number, Waiter[]>();
  #timer: NodeJS.Timeout | undefined;

  /** Resolves after about `ms` (never early by more than a tick); rejects with the signal's reason. */
  sleep(ms: number, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    if (ms <= 0) return new Promise((resolve) => setImmediate(resolve));
    return new Promise((resolve, reject) => {
      const onAbort = (): void => {
        waiter.isCancelled = true;
        reject(signal.reason as Error);
      };
      const waiter: Waiter = {
        isCancelled: false,
        wake: () => {
          signal.removeEventListener('abort', onAbort);
          resolve();
        },
      };
      signal.addEventListener('abort', onAbort, { once: true });
      this.#add(Math.ceil((performance.now() + ms) / tickMs), waiter);
    });
  }

  /** Stops the tick; sleepers are woken. */
  close(): void {
    this.#wakeUpTo(Infinity);
  }

  #add(tick: number, waiter: Waiter): void {
    const waiters = this.#due.get(tick);
    if (waiters) waiters.push(waiter);
    else this.#due.set(tick, [waiter]);
    if (this.#timer === undefined) {
      this.#timer = setInterval(() => this.#wakeUpTo(performance.now() / tickMs), tickMs);
    }
  }

  #wakeUpTo(now: number): void {
    for (const [tick, waiters] of this.#due) {
      if (tick > now) continue;
      this.#due.delete(tick);
      for (const waiter of waiters) if (!waiter.isCancelled) waiter.wake();
    }
    if (this.#due.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }
}
