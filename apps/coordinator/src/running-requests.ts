import { type ServerResponse } from 'node:http';
import { AnswerTimeoutError, ClientGoneError } from '@llm-d/pipeline';
import { type Lifecycle } from '@llm-d/service';
import { ShuttingDownError } from './shutting-down-error.ts';

/** A request that is being served. */
export interface RunningRequest {
  /** Aborted with the reason when the request has to end before its answer is whole. */
  readonly signal: AbortSignal;
  readonly abort: (reason: Error) => void;
  /** To be called when the request is over. */
  readonly release: () => void;
}

/** Ends requests whose client leaves, whose answer takes too long, or when the process has to go. */
export class RunningRequests {
  readonly #lifecycle: Lifecycle;

  constructor(lifecycle: Lifecycle) {
    this.#lifecycle = lifecycle;
  }

  /** Watches over a request until it is released. `limitMs` is for the whole answer; 0 = no limit. */
  add(response: ServerResponse, limitMs: number): RunningRequest {
    const running = new AbortController();
    const onClose = (): void => {
      if (!response.writableFinished) running.abort(new ClientGoneError());
    };
    if (response.destroyed) onClose();
    response.once('close', onClose);
    // Its turn may come when those before it are cut.
    const remove = this.#lifecycle.onCut(() => {
      running.abort(new ShuttingDownError());
    });
    const timer =
      limitMs === 0
        ? undefined
        : setTimeout(() => {
            running.abort(new AnswerTimeoutError(limitMs));
          }, limitMs);
    return {
      signal: running.signal,
      abort: (reason) => {
        running.abort(reason);
      },
      release: () => {
        clearTimeout(timer);
        remove();
        response.off('close', onClose);
      },
    };
  }
}
