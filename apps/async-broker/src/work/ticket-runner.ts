import { randomUUID } from 'node:crypto';
import {
  type Dispatch,
  type DispatchRequest,
  type Outcome,
  type QuotaLease,
  type ResponseOutcome,
  type Ticket,
  type TicketEnd,
} from '@llm-d/broker';
import { type Logger, type RunTrace, type Tracing } from '@llm-d/telemetry';
import {
  askedPauseMs,
  type Attempt,
  type HttpAnswer,
  isAnswer,
  isOverdue,
  toOutcome,
} from '../dispatch/attempt.ts';
import { faultOf } from '../dispatch/call-ended.ts';
import { dispatchHeaders } from '../dispatch/dispatch-headers.ts';
import { type Dispatcher } from '../dispatch/dispatcher.ts';
import { feedbackOf } from '../dispatch/feedback.ts';
import { decide, retryDelayMs, type RetryRules } from '../dispatch/retry-policy.ts';
import { type LaneGates, type Passage } from '../gates/lane-gates.ts';
import { objectiveFor, type Objectives } from './objectives.ts';
import { persistently } from './persistently.ts';
import { type RunObserver } from './run-observer.ts';
import { Run, type Runs } from './run.ts';

/** What a runner works with. */
export interface TicketRunnerOptions {
  readonly dispatch: Dispatch;
  readonly dispatcher: Dispatcher;
  readonly gates: LaneGates;
  readonly runs: Runs;
  readonly rules: RetryRules;
  readonly objectives: Objectives;
  readonly observer: RunObserver;
  readonly logger: Logger;
  /** Undefined where runs are not traced. */
  readonly tracing: Tracing | undefined;
  /** The target asked for a pause of everything in a lane. */
  readonly onLaneSaturated: (lane: string, pauseMs: number) => void;
}

/** A request in hand, and when its deadline is on `performance.now()`. */
interface Hand {
  readonly request: DispatchRequest;
  readonly run: Run;
  readonly deadlineAt: number;
  readonly trace: RunTrace | undefined;
}

/** How a request came out of the gates. */
type Result = Attempt | 'refused' | 'dropped' | 'body-lost';

/** How long a ticket is kept in hand that Redis does not let begin. */
const beginPatienceMs = 60_000;
/** A result waits in memory for Redis until this long after the deadline. */
const keepAfterDeadlineMs = 60_000;
/** A process that ends does not wait longer for Redis to take a request back; the sweeper finds it. */
const handOverMs = 2_000;
/** By then the deadline has passed by the clock of Redis too. */
const overdueDelayMs = 100;
const [shortestRefusalMs, longestRefusalMs] = [250, 1_000];

/**
 * What a worker does with a ticket (async-broker.md 4.8): ask the record whether it may run, pass the gates, call the
 * target, store the outcome first and let the ticket go then.
 */
export class TicketRunner {
  readonly #options: TicketRunnerOptions;

  constructor(options: TicketRunnerOptions) {
    this.#options = options;
  }

  /** Handles one ticket. The signal says that its lock was lost: another worker may take it. */
  readonly handle = async (ticket: Ticket, lock: AbortSignal): Promise<TicketEnd> => {
    const { dispatch, runs, tracing } = this.#options;
    const token = randomUUID();
    const until = performance.now() + beginPatienceMs;
    const begun = await persistently(() => dispatch.begin(ticket, token), { until, signal: lock });
    if (begun.kind !== 'run') return { kind: 'done' };
    const { request } = begun;
    const run = new Run(ticket, token);
    const onLockLost = (): void => run.end('lock-lost');
    if (lock.aborted) onLockLost();
    else lock.addEventListener('abort', onLockLost, { once: true });
    runs.add(run);
    const trace = tracing?.beginRun(request);
    try {
      const hand = { request, run, deadlineAt: performance.now() + request.remainingMs, trace };
      return await this.#settle(hand, await this.#work(hand));
    } finally {
      trace?.end();
      runs.delete(run);
      lock.removeEventListener('abort', onLockLost);
    }
  };

  /** Holds quota and gates for no longer than the attempt: what waits for a retry holds nothing. */
  async #work(hand: Hand): Promise<Result> {
    const { dispatch, gates } = this.#options;
    const { request, run, deadlineAt } = hand;
    await using lease = await dispatch.acquireQuota(request.tenant);
    const entry = await gates.pass({
      lane: request.lane,
      tier: request.tier,
      classification: lease.classification,
      remainingMs: deadlineAt - performance.now(),
      signal: run.signal,
    });
    switch (entry.kind) {
      case 'refuse':
        return 'refused';
      case 'drop':
        return 'dropped';
      case 'ended':
        return { fault: faultOf(run.signal.reason) };
      case 'go':
        // Without `await` the lease would be given back at once.
        return await this.#throughGates(hand, lease, entry.passage);
    }
  }

  async #throughGates(hand: Hand, lease: QuotaLease, passage: Passage): Promise<Result> {
    let attempt: Attempt | 'body-lost' = { fault: 'cancelled' };
    try {
      attempt = await this.#attempt(hand, lease);
      return attempt;
    } finally {
      if (attempt === 'body-lost') passage.leave('neutral');
      else passage.leave(feedbackOf(attempt), askedPauseMs(attempt));
    }
  }

  async #attempt(
    { request, run, deadlineAt, trace }: Hand,
    lease: QuotaLease,
  ): Promise<Attempt | 'body-lost'> {
    const { dispatch, dispatcher, objectives, observer, rules } = this.#options;
    const { lane, tenant, tier, path, retries, contentType } = request;
    // A cancelled or deleted request has lost its body with its life: none of them gets past this line.
    const body = await persistently(() => dispatch.body(run.ref), {
      until: deadlineAt,
      signal: run.signal,
    });
    if (!body) return run.signal.aborted ? { fault: faultOf(run.signal.reason) } : 'body-lost';
    const startedAt = performance.now();
    const remainingMs = deadlineAt - startedAt;
    const ageMs = request.ageMs + request.remainingMs - remainingMs;
    observer.onAttempt({ lane, retries, ageMs, remainingMs, bodyBytes: body.length });
    const requestId = randomUUID();
    const call = trace?.beginCall(requestId);
    run.hasBegun = true;
    const attempt = await dispatcher.attempt({
      path,
      headers: dispatchHeaders({
        requestId,
        tenant,
        objective: objectiveFor(objectives, tier, lease.classification),
        traceparent: call?.traceparent ?? request.traceparent,
        contentType,
        forwarded: request.forwardedHeaders,
      }),
      body,
      remainingMs,
      signal: run.signal,
      onAnswer: () => {
        run.hasAnswer = true;
      },
    });
    const decision = decide(attempt, rules);
    const durationMs = performance.now() - startedAt;
    const answer = isAnswer(attempt) ? attempt : undefined;
    call?.end({ status: answer?.status, fault: 'fault' in attempt ? attempt.fault : undefined });
    observer.onAttemptEnd({
      lane,
      status: answer?.status,
      decision: decision.kind,
      isDeadline: decision.kind === 'fail' && decision.code === 'DEADLINE_EXCEEDED',
      durationMs,
      resultBytes: answer?.body.length ?? 0,
      answer: answer?.body,
    });
    this.#options.logger.info(
      {
        ...{ request_id: requestId, lane, tenant, retries, classification: lease.classification },
        ...(answer ? { status: answer.status } : { fault: 'fault' in attempt && attempt.fault }),
        ...{ decision: decision.kind, duration_ms: Math.round(durationMs) },
        ...trace?.ids,
      },
      'dispatched',
    );
    return attempt;
  }

  async #settle(hand: Hand, result: Result): Promise<TicketEnd> {
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
