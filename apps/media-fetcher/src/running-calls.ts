import { type ServerResponse } from 'node:http';
import { type Lifecycle } from '@llm-d/service';

/** Gives every call a signal that ends its downloads when nobody waits for them, or nobody may wait any longer. */
export class RunningCalls {
  readonly #lifecycle: Lifecycle;
  readonly #limitMs: number;

  /** `limitMs` is what an answer may take beside its downloads; past it the connection is cut. */
  constructor(lifecycle: Lifecycle, limitMs: number) {
    this.#limitMs = limitMs;
    this.#lifecycle = lifecycle;
  }

  /** Watches over an answer until its connection closes or it is written; its downloads may take `downloadsMs`. */
  watch(response: ServerResponse, downloadsMs: number): AbortSignal {
    const running = new AbortController();
    if (response.closed) {
      running.abort(new Error('the caller left'));
      return running.signal;
    }
    const remove = this.#lifecycle.onCut(() => {
      running.abort(new Error('shutting down'));
    });
    const timer = setTimeout(() => {
      running.abort(new Error('the answer took too long'));
      response.destroy();
    }, downloadsMs + this.#limitMs);
    response.once('close', () => {
      clearTimeout(timer);
      remove();
      if (!response.writableFinished) running.abort(new Error('the caller left'));
    });
    return running.signal;
  }
}
