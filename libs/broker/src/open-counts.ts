/** Ended requests and other processes' admissions are not seen for so long. */
const lifeMs = 1_000;
/** Forgets the oldest beyond so many keys: tenants are without bound. */
const maxKeys = 10_000;

/**
 * How many requests are open under a key, to spare the question while the answer is far from a limit: a count that was
 * read less than a second ago, and what this process has added since.
 */
export class OpenCounts {
  readonly #counts = new Map<string, { count: number; readonly readAt: number }>();

  /** The count, read anew with `read` unless it is known and less than half of the limit. */
  async below(limit: number, key: string, read: (key: string) => Promise<number>): Promise<number> {
    const known = this.#counts.get(key);
    if (known && performance.now() - known.readAt < lifeMs && known.count < limit / 2) {
      return known.count;
    }
    const count = await read(key);
    // Written again as the youngest.
    this.#counts.delete(key);
    this.#counts.set(key, { count, readAt: performance.now() });
    if (this.#counts.size > maxKeys) {
      const [oldest = ''] = this.#counts.keys();
      this.#counts.delete(oldest);
    }
    return count;
  }

  /** A request was added under the key. */
  add(key: string): void {
    const known = this.#counts.get(key);
    if (known) known.count += 1;
  }
}
