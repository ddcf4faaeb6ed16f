import { type Logger } from './pino-logger.ts';

const firstPauseMs = 1_000;
const maxPauseMs = 60_000;

/**
 * Tells of faults that come with every request as long as they last: one line with how many there were, after a second
 * one more, and then at intervals that double up to a minute.
 */
export class FaultLog {
  readonly #log: Pick<Logger, 'warn'>;
  readonly #text: string;
  readonly #now: () => number;
  #toldAt = -Infinity;
  #pauseMs = firstPauseMs;
  #faults = 0;

  /**
   * @param text what the faults mean, with the key that may be the mistake.
   * @param now milliseconds of a clock that is never set back.
   */
  constructor(
    log: Pick<Logger, 'warn'>,
    text: string,
    now: () => number = () => performance.now(),
  ) {
    this.#log = log;
    this.#text = text;
    this.#now = now;
  }

  note(error: Error): void {
    this.#faults += 1;
    const now = this.#now();
    const sinceMs = now - this.#toldAt;
    if (sinceMs < this.#pauseMs) return;
    // None for a whole pause after the last one ended: this is another outage.
    this.#pauseMs =
      sinceMs > 2 * this.#pauseMs ? firstPauseMs : Math.min(2 * this.#pauseMs, maxPauseMs);
    this.#toldAt = now;
    this.#log.warn({ error: error.message, faults: this.#faults }, this.#text);
    this.#faults = 0;
  }
}
