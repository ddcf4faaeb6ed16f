interface Batch<Item, Result> {
  readonly items: Item[];
  readonly result: PromiseWithResolvers<Result>;
}

/**
 * Collects what is asked for in one turn of the event loop, and does it together: one command for each key, whatever the
 * number of requests. Keys are taken in the order of their first item.
 */
export class Gathering<Item, Result> {
  readonly #work: (key: string, items: readonly Item[]) => Promise<Result>;
  #batches = new Map<string, Batch<Item, Result>>();

  constructor(work: (key: string, items: readonly Item[]) => Promise<Result>) {
    this.#work = work;
  }

  /** Resolves with what the key's batch came to and the item's place in the batch. */
  async add(key: string, item: Item): Promise<{ result: Result; index: number }> {
    if (this.#batches.size === 0) {
      process.nextTick(() => this.#flush());
    }
    let batch = this.#batches.get(key);
    if (batch === undefined) {
      batch = { items: [], result: Promise.withResolvers<Result>() };
      this.#batches.set(key, batch);
    }
    const index = batch.items.push(item) - 1;
    return { result: await batch.result.promise, index };
  }

  #flush(): void {
    const batches = this.#batches;
    this.#batches = new Map();
    for (const [key, { items, result }] of batches) {
      this.#work(key, items).then(result.resolve, result.reject);
    }
  }
}
