/**
 * The blocks of one pod: pinned ones belong to running requests and open leases, the rest is an LRU
 * of block hashes. Together they never exceed the capacity.
 */
export class PrefixCache {
  readonly capacity: number;
  #pinned = 0;
  readonly #blocks = new Set<string>();

  constructor(capacity: number) {
    this.capacity = capacity;
  }

  /** Pinned and cached blocks. */
  get used(): number {
    return this.#pinned + this.#blocks.size;
  }

  /** Takes blocks out of the pool, evicting the least recently used. False when pins alone fill it. */
  pin(count: number): boolean {
    if (this.#pinned + count > this.capacity) return false;
    this.#pinned += count;
    this.#evict();
    return true;
  }

  /** Gives pinned blocks back. */
  unpin(count: number): void {
    this.#pinned -= count;
  }

  /** How many leading blocks are cached. A probe changes nothing. */
  match(hashes: readonly string[]): number {
    const miss = hashes.findIndex((hash) => !this.#blocks.has(hash));
    return miss === -1 ? hashes.length : miss;
  }

  /** Makes these blocks the most recently used. */
  insert(hashes: readonly string[]): void {
    for (const hash of hashes) {
      this.#blocks.delete(hash);
      this.#blocks.add(hash);
    }
    this.#evict();
  }

  /** Forgets all cached blocks; pins stay. */
  clear(): void {
    this.#blocks.clear();
  }

  #evict(): void {
    for (const hash of this.#blocks) {
      if (this.used <= this.capacity) return;
      this.#blocks.delete(hash);
    }
  }
}
