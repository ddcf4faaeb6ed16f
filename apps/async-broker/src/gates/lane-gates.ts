import { setTimeout as sleep } from 'node:timers/promises';
import { type Aimd, type AimdCall, type Feedback } from './aimd.ts';
import { slotsWithin } from './budget.ts';
import { type Classification, type SaturationRule, whenSaturated } from './saturation.ts';

/** What the gates of a process are made of. */
export interface GateSettings {
  /** Lanes in their order of priority; requests of others rank behind them. */
  readonly lanes: readonly string[];
  /** Tickets of a lane at once in this process, without a budget. */
  readonly slots: number;
  /** Learns from answers; absent = the target takes all that the slots send. */
  readonly aimd: Aimd | undefined;
  readonly saturated: SaturationRule;
  /** Longest wait in hand, apart from the time of an attempt: after it a request goes back unharmed. */
  readonly longestWaitMs: number;
}

/** A request that asks to pass. */
export interface GateRequest {
  readonly lane: string;
  readonly tier: string;
  readonly classification: Classification;
  readonly remainingMs: number;
  /** Ends the wait. */
  readonly signal: AbortSignal;
}

/** A place behind the gates; `leave` must be called once, whatever happens to the request. */
export interface Passage {
  leave(feedback: Feedback, retryAfterMs?: number): void;
}

/** Why a request was held up, for the counter of decisions. */
export type GateReason = 'gate_closed' | 'quota_exhausted' | 'dropped' | 'error';

/** `refuse`: back to the queue unharmed. `ended`: the signal came first. */
export type GateResult =
  | { readonly kind: 'go'; readonly passage: Passage; readonly waitedMs: number }
  | { readonly kind: 'refuse' | 'drop' | 'ended' };

const [shortestPollMs, longestPollMs] = [100, 1_000];

/**
 * Decides with the request in hand, so that a worker that was already waiting for a ticket does not burst past a gate
 * that closed meanwhile. A request passes all gates or holds none.
 */
export class LaneGates {
  readonly #settings: GateSettings;
  readonly #onHeldUp: (reason: GateReason, lane: string) => void;
  readonly #budgets = new Map<string, number>();
  readonly #inFlight = new Map<string, number>();
  /** When a lane opens again that the target had closed, on `performance.now()`. */
  readonly #opensAt = new Map<string, number>();

  constructor(settings: GateSettings, onHeldUp: (reason: GateReason, lane: string) => void) {
    this.#settings = settings;
    this.#onHeldUp = onHeldUp;
  }

  /** What the operator lets through, 0 to 1. */
  setBudget(lane: string, budget: number): void {
    this.#budgets.set(lane, budget);
  }

  budget(lane: string): number {
    return this.#budgets.get(lane) ?? 1;
  }

  /** Closes a lane for a while, for all that is not yet through. */
  close(lane: string, pauseMs: number): void {
    const opensAt = performance.now() + pauseMs;
    this.#opensAt.set(lane, Math.max(this.#opensAt.get(lane) ?? 0, opensAt));
  }

  /** Tickets of a lane that may be in hand at once. */
  slots(lane: string): number {
    if (performance.now() < (this.#opensAt.get(lane) ?? 0)) return 0;
    return slotsWithin(this.#settings.slots, this.budget(lane));
  }

  inFlight(lane: string): number {
    return this.#inFlight.get(lane) ?? 0;
  }

  /** Rank of a request among the bands: reserved before overflow, lanes in order. */
  rank(lane: string, classification: Classification): number {
    const { lanes } = this.#settings;
    const index = lanes.indexOf(lane);
    const place = index === -1 ? lanes.length : index;
    return classification === 'reserved' ? place : lanes.length + 1 + place;
  }

  /** Resolves when it is decided; never rejects. */
  async pass(request: GateRequest): Promise<GateResult> {
    const { lane, signal } = request;
    const startedAt = performance.now();
    const longestMs = Math.min(this.#settings.longestWaitMs, request.remainingMs);
    for (;;) {
      if (signal.aborted) return { kind: 'ended' };
      if (this.inFlight(lane) >= this.slots(lane)) {
        this.#onHeldUp('gate_closed', lane);
        return { kind: 'refuse' };
      }
      const call = this.#enterBand(request);
      if (call !== 'saturated') {
        const waitedMs = performance.now() - startedAt;
        return { kind: 'go', passage: this.#enter(lane, call), waitedMs };
      }
      const { saturated } = this.#settings;
      const refusal = whenSaturated(saturated, request.classification, request.tier);
      this.#onHeldUp(refusal === 'drop' ? 'dropped' : 'gate_closed', lane);
      if (refusal !== 'wait') return { kind: refusal };
      if (performance.now() - startedAt >= longestMs) return { kind: 'refuse' };
      await pause(shortestPollMs + (longestPollMs - shortestPollMs) * Math.random() ** 2, signal);
    }
  }

  #enterBand({ lane, classification }: GateRequest): AimdCall | undefined | 'saturated' {
    const { aimd } = this.#settings;
    return aimd && (aimd.enter(this.rank(lane, classification)) ?? 'saturated');
  }

  #enter(lane: string, call: AimdCall | undefined): Passage {
    this.#inFlight.set(lane, this.inFlight(lane) + 1);
    return {
      leave: (feedback, retryAfterMs) => {
        this.#inFlight.set(lane, this.inFlight(lane) - 1);
        call?.end(feedback, retryAfterMs);
      },
    };
  }
}

async function pause(ms: number, signal: AbortSignal): Promise<void> {
  try {
    await sleep(ms, undefined, { signal });
  } catch {
    // The caller looks at the signal.
  }
}
