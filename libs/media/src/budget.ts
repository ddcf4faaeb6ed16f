import { type Limiter } from './limiter.ts';
import { MediaError } from './media-error.ts';

/** Unit in which memory is reserved for a body of unknown length. */
const stepBytes = 256 * 1024;

/** What one call may still take of its total; shared by its downloads. */
export class TotalBudget {
  readonly #limit: number;
  #used = 0;

  constructor(limit: number) {
    this.#limit = limit;
  }

  /** Throws `media_total_too_large` when so many more bytes would pass the total. */
  check(bytes: number): void {
    if (this.#used + bytes > this.#limit) {
      throw new MediaError(
        'media_total_too_large',
        `downloading media: all items together exceed ${this.#limit} bytes`,
        { limit: this.#limit, actual: this.#used + bytes },
      );
    }
  }

  /** Counts bytes, or throws as `check` does. */
  add(bytes: number): void {
    this.check(bytes);
    this.#used += bytes;
  }

  /** Takes counted bytes back. */
  remove(bytes: number): void {
    this.#used -= bytes;
  }
}

/** What one attempt takes of a total; the next attempt counts anew. */
export class TotalShare {
  readonly #total: TotalBudget;
  #taken = 0;

  constructor(total: TotalBudget) {
    this.#total = total;
  }

  /** As `check` of the total. */
  check(bytes: number): void {
    this.#total.check(bytes);
  }

  /** As `add` of the total. */
  add(bytes: number): void {
    this.#total.add(bytes);
    this.#taken += bytes;
  }

  /** Takes everything back, of an attempt that failed. */
  giveBack(): void {
    this.#total.remove(this.#taken);
    this.#taken = 0;
  }
}

/** Memory that one download holds of the process's budget. */
export class Reservation {
  readonly #memory: Limiter;
  readonly #maxBytes: number;
  #held = 0;

  /** `maxBytes` is the cap of the item; it must not be more than the capacity of `memory`. */
  constructor(memory: Limiter, maxBytes: number) {
    this.#memory = memory;
    this.#maxBytes = maxBytes;
  }

  /** Whether so many bytes may be held without another `grow`. */
  covers(bytes: number): boolean {
    return bytes <= this.#held;
  }

  /** Waits until at least `bytes` are held in all; rejects with MediaError. */
  async grow(bytes: number, signal: AbortSignal): Promise<void> {
    const target = Math.min(Math.ceil(bytes / stepBytes) * stepBytes, this.#maxBytes);
    const more = target - this.#held;
    if (more > 0) {
      await this.#memory.acquire(more, signal);
      this.#held += more;
    }
  }

  /** Gives everything back; a second call does nothing. It may grow again afterwards. */
  release(): void {
    const held = this.#held;
    this.#held = 0;
    if (held > 0) {
      this.#memory.release(held);
    }
  }
}
