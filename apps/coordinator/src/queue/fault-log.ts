import { type Logger } from '@llm-d/pipeline';

const pauseMs = 1_000;

/** Tells of faults that come with every request as long as they last: one line a second, with how many there were. */
export class FaultLog {
  readonly #log: Pick<Logger, 'warn'>;
  #toldAt = -Infinity;
  #faults = 0;

  constructor(log: Pick<Logger, 'warn'>) {
    this.#log = log;
  }

  note(error: Error): void {
    this.#faults += 1;
    const now = performance.now();
    if (now - this.#toldAt < pauseMs) return;
    this.#log.warn({ error: error.message, faults: this.#faults }, 'the queue cannot be used');
    this.#toldAt = now;
    this.#faults = 0;
  }
}
