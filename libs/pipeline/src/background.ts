import { OpenItems } from './open-items.ts';

/** Bounds of the work that outlives its request. */
export interface BackgroundLimits {
  /** Pieces of work at the same time. */
  readonly maxRunning: number;
  /** Pieces that wait for their turn, and the body bytes that they hold. */
  readonly maxWaiting: number;
  readonly maxWaitingBytes: number;
  /** Longest time of one piece, its wait not included. */
  readonly timeoutMs: number;
}

/** A release is a small call, but it holds its request's body: few at a time, and none that waits for long. */
export const backgroundLimits: BackgroundLimits = {
  maxRunning: 16,
  maxWaiting: 256,
  maxWaitingBytes: 64 * 1024 * 1024,
  timeoutMs: 10_000,
};

interface Piece {
  readonly bytes: number;
  readonly work: (signal: AbortSignal) => Promise<void>;
}

/** Runs what has to be done after a request is over, such as giving back what it holds at a worker. */
export class Background {
  readonly #limits: BackgroundLimits;
  readonly #waiting: Piece[] = [];
  readonly #running = new OpenItems<AbortController>();
  #waitingBytes = 0;
  #isClosed = false;
  #onIdle: (() => void)[] = [];

  constructor(limits: BackgroundLimits = backgroundLimits) {
    this.#limits = limits;
  }

  /**
   * Runs `work` soon. Its signal is aborted when its time is over or the process ends; it must not throw.
   *
   * @returns false when there is no room: nothing will be done then.
   */
  run(bytes: number, work: Piece['work']): boolean {
    const { maxRunning, maxWaiting, maxWaitingBytes } = this.#limits;
    if (this.#isClosed) return false;
    if (this.#running.size < maxRunning) {
      void this.#start({ bytes, work });
      return true;
    }
    if (this.#waiting.length >= maxWaiting || this.#waitingBytes + bytes > maxWaitingBytes) {
      return false;
    }
    this.#waiting.push({ bytes, work });
    this.#waitingBytes += bytes;
    return true;
  }

  /** Resolves when nothing runs or waits. */
  async idle(): Promise<void> {
    if (this.#running.size === 0) return;
    await new Promise<void>((resolve) => this.#onIdle.push(resolve));
  }

  /** Takes nothing more and aborts what is left. */
  async close(): Promise<void> {
    this.#isClosed = true;
    for (const running of this.#running.all()) running.abort(new Error('the process is ending'));
    for (const piece of this.#waiting.splice(0)) void this.#start(piece);
    await this.idle();
  }

  async #start({ work }: Piece): Promise<void> {
    const running = new AbortController();
    const remove = this.#running.add(running);
    const timer = setTimeout(() => {
      running.abort(new Error('the time for it is over'));
    }, this.#limits.timeoutMs);
    if (this.#isClosed) running.abort(new Error('the process is ending'));
    try {
      await work(running.signal);
    } finally {
      clearTimeout(timer);
      remove();
      this.#next();
    }
  }

  #next(): void {
    const piece = this.#waiting.shift();
    if (piece) {
      this.#waitingBytes -= piece.bytes;
      void this.#start(piece);
    } else if (this.#running.size === 0) {
      for (const resolve of this.#onIdle.splice(0)) resolve();
    }
  }
}
