/**
 * What is open at the moment, where something opens and closes with every request.
 *
 * Not a Set: one that many members pass through is laid out anew all the time, and each old layout of V8's keeps the
 * next one with its members alive until a full collection. That made every finished request cost a promotion.
 */
export class OpenItems<T> {
  readonly #entries: { readonly item: T; at: number }[] = [];

  get size(): number {
    return this.#entries.length;
  }

  /** Adds an item; what it returns removes it, once. */
  add(item: T): () => void {
    const entries = this.#entries;
    const entry = { item, at: entries.length };
    entries.push(entry);
    return () => {
      const last = entries[entries.length - 1];
      if (entries[entry.at] !== entry || !last) return;
      entries[entry.at] = last;
      last.at = entry.at;
      entries.pop();
    };
  }

  /** The items in no particular order; may be changed meanwhile. */
  all(): T[] {
    return this.#entries.map(({ item }) => item);
  }
}
