import { type RequestObserver, type TimelineEntry } from '@llm-d/pipeline';
import { noteServer, servedByHeader } from './leg.ts';
import { pick } from './header-list.ts';
import { type RelayWatch } from './relay.ts';

/** Tells an observer of the one leg of a passthrough. */
export class PassthroughLeg implements RelayWatch {
  readonly #observer: RequestObserver;
  readonly #arrivedAt: number;
  readonly #entry: TimelineEntry;

  /** `arrivedAt` is `performance.now()` when the request arrived. */
  constructor(observer: RequestObserver, name: string, arrivedAt: number) {
    this.#observer = observer;
    this.#arrivedAt = arrivedAt;
    this.#entry = { name, kind: 'leg', phase: 'decode', startMs: this.#elapsedMs() };
    observer.started(this.#entry);
  }

  /** What the observer adds to the headers; names and values in turn. */
  get headers(): readonly string[] {
    return this.#observer.legHeaders?.(this.#entry) ?? [];
  }

  /** Notes how long the request's body is, where that is known before it is sent. */
  sends(byteLength: number | undefined): void {
    if (byteLength !== undefined) this.#entry.requestBytes = byteLength;
  }

  start(status: number, answered: readonly string[]): boolean {
    this.#entry.status = status;
    this.#entry.headersMs = this.#elapsedMs();
    this.#entry.responseBytes = 0;
    noteServer(this.#entry, pick(answered, (name) => name === servedByHeader)[1]);
    return true;
  }

  data(chunk: Uint8Array): void {
    this.#entry.responseBytes = (this.#entry.responseBytes ?? 0) + chunk.length;
  }

  /** `error` is what the leg failed with. */
  finish(error?: unknown): void {
    this.#entry.endMs = this.#elapsedMs();
    this.#observer.finished(this.#entry, error);
  }

  #elapsedMs(): number {
    return performance.now() - this.#arrivedAt;
  }
}
