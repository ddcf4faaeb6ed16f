import { OpenItems } from '@llm-d/pipeline';

/** Where a service stands between start and exit; one per process, shared by probes and handlers. */
export class Lifecycle {
  readonly #endings = new OpenItems<() => void>();
  #isCut = false;
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

  /**
   * Has `end` called when requests have outlived the shutdown limit and have to end at once, or now when that time has
   * come. What it returns takes it back.
   */
  onCut(end: () => void): () => void {
    if (this.#isCut) end();
    return this.#endings.add(end);
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

  cutRequests(): void {
    if (this.#isCut) return;
    this.#isCut = true;
    for (const end of this.#endings.all()) end();
  }
}
