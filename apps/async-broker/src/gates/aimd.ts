/** Numbers of a congestion window; each is a count of calls in flight. */
export interface AimdLimits {
  readonly minWindow: number;
  readonly maxWindow: number;
  /** Growth per window's worth of accepted calls. */
  readonly increase: number;
  /** Factor at a rejection for lack of capacity. */
  readonly decrease: number;
}

/** What the end of a call says of the target's capacity. */
export type Feedback = 'accepted' | 'saturated' | 'expired' | 'neutral';

/** A call that was let in; `end` must be called once. */
export interface AimdCall {
  end(feedback: Feedback, retryAfterMs?: number): void;
}

/** What an operator wants to see of a band. */
export interface BandState {
  readonly window: number;
  readonly threshold: number;
  readonly inFlight: number;
}

const freezeMs = 1_000;
const expiredFactor = 0.9;

/**
 * Congestion windows per band, learnt from what the target answers (async-broker.md 3.3). Bands are ranked: a rejection
 * also shrinks the lower ones and keeps the higher ones from growing for a second.
 */
export class Aimd {
  readonly #bands: Band[];
  readonly #limits: AimdLimits;
  readonly #now: () => number;

  /** `bands` counts the ranks, 0 being the highest; `now` is a clock in milliseconds. */
  constructor(bands: number, limits: AimdLimits, now: () => number = () => performance.now()) {
    this.#limits = limits;
    this.#now = now;
    this.#bands = Array.from({ length: bands }, () => new Band(limits));
  }

  /** A place in the window of a band; undefined when it is full or closed. */
  enter(rank: number): AimdCall | undefined {
    const band = this.#band(rank);
    const now = this.#now();
    if (now < band.closedUntil || band.inFlight >= Math.floor(band.window)) return undefined;
    band.inFlight += 1;
    const startedAt = now;
    return {
      end: (feedback, retryAfterMs) => {
        band.inFlight -= 1;
        this.#learn(rank, startedAt, feedback, retryAfterMs);
      },
    };
  }

  state(rank: number): BandState {
    const { window, threshold, inFlight } = this.#band(rank);
    return { window, threshold, inFlight };
  }

  #learn(rank: number, startedAt: number, feedback: Feedback, retryAfterMs = 0): void {
    const band = this.#band(rank);
    const now = this.#now();
    if (feedback === 'neutral') return;
    if (feedback === 'accepted') {
      if (now >= band.frozenUntil) band.grow(this.#limits);
      return;
    }
    if (retryAfterMs > 0) {
      band.closedUntil = Math.max(band.closedUntil, now + retryAfterMs);
      band.shrinkTo(band.window * this.#limits.decrease, this.#limits, now);
      band.window = this.#limits.minWindow;
    } else if (startedAt >= band.shrunkAt) {
      const factor = feedback === 'expired' ? expiredFactor : this.#limits.decrease;
      band.shrinkTo(band.window * factor, this.#limits, now);
    } else return;
    for (const [other, neighbour] of this.#bands.entries()) {
      if (other < rank) neighbour.frozenUntil = now + freezeMs;
      else if (other > rank) {
        neighbour.shrinkTo(neighbour.window * this.#limits.decrease, this.#limits, now);
      }
    }
  }

  #band(rank: number): Band {
    const band = this.#bands[rank];
    if (!band) throw new RangeError(`no band ${rank}`);
    return band;
  }
}

class Band {
  window: number;
  threshold: number;
  inFlight = 0;
  /** A rejection of a call that began before this moment belongs to a flight that has been answered for. */
  shrunkAt = Number.NEGATIVE_INFINITY;
  closedUntil = Number.NEGATIVE_INFINITY;
  frozenUntil = Number.NEGATIVE_INFINITY;

  constructor({ minWindow, maxWindow }: AimdLimits) {
    this.window = minWindow;
    this.threshold = maxWindow;
  }

  grow({ increase, maxWindow }: AimdLimits): void {
    const step = this.window < this.threshold ? increase : increase / this.window;
    this.window = Math.min(this.window + step, maxWindow);
  }

  shrinkTo(window: number, { minWindow }: AimdLimits, now: number): void {
    this.window = Math.max(window, minWindow);
    this.threshold = this.window;
    this.shrunkAt = now;
  }
}
