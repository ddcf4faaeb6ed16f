const ticksPerWindow = 5;

/** Notices a body that drips slower than a minimum over any window; an idle timer never would. */
export class RateWatch {
  readonly #minBytes: number;
  readonly #tickMs: number;
  readonly #onSlow: () => void;
  #recent: number[] = [];
  #current = 0;
  #isPaused = false;
  #timer: NodeJS.Timeout | undefined;

  constructor(minBytesPerSecond: number, windowMs: number, onSlow: () => void) {
    this.#minBytes = (minBytesPerSecond * windowMs) / 1000;
    this.#tickMs = windowMs / ticksPerWindow;
    this.#onSlow = onSlow;
  }

  /** Counts received bytes; the first ones start the watch. */
  count(bytes: number): void {
    this.#current += bytes;
    this.#timer ??= setInterval(() => {
      this.#tick();
    }, this.#tickMs);
  }

  /** Waits for something of ours; while that lasts we do not read and the origin is not to blame. */
  async whilePaused(wait: Promise<void>): Promise<void> {
    this.#isPaused = true;
    try {
      await wait;
    } finally {
      this.#isPaused = false;
      this.#recent = [];
    }
  }

  /** Ends the watch; it must be called when the body has ended. */
  stop(): void {
    clearInterval(this.#timer);
  }

  #tick(): void {
    if (this.#isPaused) {
      return;
    }
    this.#recent = [...this.#recent, this.#current].slice(-ticksPerWindow);
    this.#current = 0;
    const windowBytes = this.#recent.reduce((sum, bytes) => sum + bytes, 0);
    if (this.#recent.length === ticksPerWindow && windowBytes < this.#minBytes) {
      this.stop();
      this.#onSlow();
    }
  }
}
