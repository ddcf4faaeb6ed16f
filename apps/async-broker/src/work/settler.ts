import { type Dispatch, type Outcome, type ResponseOutcome, type TicketEnd } from '@llm-d/broker';
import {
  askedPauseMs,
  type Attempt,
  type HttpAnswer,
  isAnswer,
  isOverdue,
  toOutcome,
} from '../dispatch/attempt.ts';
import { faultOf } from '../dispatch/call-ended.ts';
import { decide, retryDelayMs, type RetryRules } from '../dispatch/retry-policy.ts';
import { type Hand, type Result } from './hand.ts';
import { persistently } from './persistently.ts';
import { type RunObserver } from './run-observer.ts';

/** What a settler works with. */
export interface SettlerOptions {
  readonly dispatch: Dispatch;
  readonly rules: RetryRules;
  readonly observer: RunObserver;
  /** The target asked for a pause of everything in a lane. */
  readonly onLaneSaturated: (lane: string, pauseMs: number) => void;
}

/** A result waits in memory for Redis until this long after the deadline. */
const keepAfterDeadlineMs = 60_000;
/** A process that ends does not wait longer for Redis to take a request back; the sweeper finds it. */
const handOverMs = 2_000;
/** By then the deadline has passed by the clock of Redis too. */
const overdueDelayMs = 100;
const [shortestRefusalMs, longestRefusalMs] = [250, 1_000];

/** Ends the work on a ticket: the outcome is stored first and the ticket is let go then, or it waits for another attempt. */
export class Settler {
  readonly #options: SettlerOptions;

  constructor(options: SettlerOptions) {
    this.#options = options;
  }

  /** What the result means for the record and the ticket. */
  async settle(hand: Hand, result: Result): Promise<TicketEnd> {
    const { observer, rules } = this.#options;
    const { run } = hand;
    if (result === 'refused') {
      const delayMs = between(shortestRefusalMs, longestRefusalMs);
      return this.#park(hand, { isRetry: false }, { kind: 'delay', delayMs });
    }
    if (result === 'dropped') {
      return this.#fail(hand, 'GATE_DROPPED', 'the service is saturated');
    }
    if (result === 'body-lost') {
      return this.#fail(hand, 'INFERENCE_ERROR', 'the body of the request was lost');
    }
    const decision = decide(result, rules);
    switch (decision.kind) {
      case 'store':
        return this.#finish(hand, toOutcome(result as HttpAnswer));
      case 'fail':
        return isOverdue(result) && hand.request.retries > 0
          ? this.#leaveToDeadline(hand)
          : this.#fail(hand, decision.code, decision.message);
      case 'retry':
        return this.#retry(hand, result);
      case 'requeue':
        return this.#handOver(hand);
      case 'drop':
        if (faultOf(run.signal.reason) !== 'cancelled') return this.#handOver(hand);
        observer.onCancelled(run.hasBegun ? 'active' : 'queued', run.cancelReason);
        return this.#fail(hand, 'CANCELLED', 'the request was cancelled');
    }
  }

  async #retry(hand: Hand, attempt: Attempt): Promise<TicketEnd> {
    const { request, deadlineAt } = hand;
    const answer = isAnswer(attempt) ? attempt : undefined;
    const remainingMs = deadlineAt - performance.now();
    const delayMs = retryDelayMs({
      retry: request.retries + 1,
      remainingMs,
      retryAfter: answer?.retryAfter,
      nowMs: Date.now(),
      random: Math.random(),
    });
    if (answer?.droppedReason === 'rejected-saturated') {
      const pauseMs = askedPauseMs(answer);
      if (pauseMs !== undefined) this.#options.onLaneSaturated(request.lane, pauseMs);
    }
    if (delayMs >= remainingMs && answer) return this.#finish(hand, toOutcome(answer));
    const last = answer && toOutcome(answer);
    return this.#park(hand, { isRetry: true, ...(last && { last }) }, { kind: 'delay', delayMs });
  }

  /** The record has the answer of an earlier attempt: it becomes the outcome when the ticket is asked for again. */
  #leaveToDeadline(hand: Hand): Promise<TicketEnd> {
    return this.#park(hand, { isRetry: false }, { kind: 'delay', delayMs: overdueDelayMs });
  }

  #fail(
    hand: Hand,
    code: 'GATE_DROPPED' | 'INFERENCE_ERROR' | 'DEADLINE_EXCEEDED' | 'CANCELLED',
    message: string,
  ): Promise<TicketEnd> {
    return this.#finish(hand, { kind: 'error', code, message });
  }

  /** The result first, then the ticket: a worker that dies in between leaves a ticket that finds its outcome. */
  async #finish({ run, deadlineAt }: Hand, outcome: Outcome): Promise<TicketEnd> {
    const { dispatch } = this.#options;
    await persistently(() => dispatch.finish(run.ref, run.token, outcome), {
      until: deadlineAt + keepAfterDeadlineMs,
    });
    return { kind: 'done' };
  }

  async #park(
    { run, deadlineAt, trace }: Hand,
    options: { readonly isRetry: boolean; readonly last?: ResponseOutcome },
    end: TicketEnd,
  ): Promise<TicketEnd> {
    const { dispatch } = this.#options;
    const done = trace?.beginReEnqueue();
    const result = await persistently(() => dispatch.park(run.ref, run.token, options), {
      until: deadlineAt + keepAfterDeadlineMs,
    }).finally(done);
    return result === 'ok' ? end : { kind: 'done' };
  }

  /**
   * To another worker, at once: what Redis does not hear of now the sweeper or the stall check finds. BullMQ's way back to
   * the front (`moveToWait`) wakes nobody when a ticket has a priority; a delay of nothing does.
   */
  async #handOver({ run, trace }: Hand): Promise<TicketEnd> {
    const { dispatch } = this.#options;
    const done = trace?.beginReEnqueue();
    try {
      const until = performance.now() + handOverMs;
      const parking = () => dispatch.park(run.ref, run.token, { isRetry: false });
      const result = await persistently(parking, { until });
      return result === 'ok' ? { kind: 'delay', delayMs: 0 } : { kind: 'done' };
    } catch {
      return { kind: 'delay', delayMs: 0 };
    } finally {
      done?.();
    }
  }
}

function between(least: number, most: number): number {
  return Math.round(least + (most - least) * Math.random());
}
