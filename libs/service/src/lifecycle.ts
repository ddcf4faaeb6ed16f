/** Where a service stands between start and exit; one per process, shared by probes and handlers. */
export class Lifecycle {
  readonly #cut = new AbortController();
  #isDraining = false;

  /** True from the first signal on: `/readyz` answers 503 while requests in flight go on. */
  get isDraining(): boolean {
    return this.#isDraining;
  }

  /** Aborts when requests have outlived the shutdown limit and have to end at once. */
  get cut(): AbortSignal {
    return this.#cut.signal;
  }

  startDraining(): void {
    this.#isDraining = true;
  }

  cutRequests(reason: Error): void {
    this.#cut.abort(reason);
  }
}
