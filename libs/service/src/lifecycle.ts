/** Where a service stands between start and exit; one per process, shared by probes and handlers. */
export class Lifecycle {
  readonly #cut = new AbortController();
  readonly #work: (() => Promise<void>)[] = [];
  readonly #draining = new AbortController();
  #drainingSince: number | undefined;

  /** True from the first signal on: `/readyz` answers 503 while requests in flight go on. */
  get isDraining(): boolean {
    return this.#drainingSince !== undefined;
  }

  /** `performance.now()` at the first signal; undefined before. */
  get drainingSince(): number | undefined {
    return this.#drainingSince;
  }

  /** Aborts at the first signal. */
  get draining(): AbortSignal {
    return this.#draining.signal;
  }

  /** Aborts when requests have outlived the shutdown limit and have to end at once. */
  get cut(): AbortSignal {
    return this.#cut.signal;
  }

  /** Adds work that goes on after the last request: a drain waits for it, within the same limit. */
  beforeEnd(idle: () => Promise<void>): void {
    this.#work.push(idle);
  }

  /** Resolves when that work is done; to be asked after the last request. */
  async idle(): Promise<void> {
    await Promise.all(this.#work.map((idle) => idle()));
  }

  startDraining(): void {
    this.#drainingSince ??= performance.now();
    this.#draining.abort();
  }

  cutRequests(reason: Error): void {
    this.#cut.abort(reason);
  }
}
