import { type HrTime } from '@opentelemetry/api';
import { millisToHrTime } from '@opentelemetry/core';

/**
 * Time of day for the spans of one request, finer than a millisecond. One for all of them: by clocks of their own a leg
 * could begin before its step.
 */
export class RequestClock {
  readonly #offsetMs = Date.now() - performance.now();

  now(): HrTime {
    return this.before(0);
  }

  /** The time that was so many milliseconds ago. */
  before(ms: number): HrTime {
    return millisToHrTime(this.#offsetMs + performance.now() - ms);
  }
}
