import { randomUUID } from 'node:crypto';
import { type QuotaLease, type Ticket, type TicketEnd } from '@llm-d/broker';
import { type Logger, type Tracing } from '@llm-d/telemetry';
import { askedPauseMs, type Attempt, isAnswer } from '../dispatch/attempt.ts';
import { faultOf } from '../dispatch/call-ended.ts';
import { dispatchHeaders } from '../dispatch/dispatch-headers.ts';
import { type Dispatcher } from '../dispatch/dispatcher.ts';
import { feedbackOf } from '../dispatch/feedback.ts';
import { decide } from '../dispatch/retry-policy.ts';
import { type LaneGates, type Passage } from '../gates/lane-gates.ts';
import { type Hand, type Result } from './hand.ts';
import { objectiveFor, type Objectives } from './objectives.ts';
import { persistently } from './persistently.ts';
import { Run, type Runs } from './run.ts';
import { Settler, type SettlerOptions } from './settler.ts';

/** What a runner works with. */
export interface TicketRunnerOptions extends SettlerOptions {
  readonly dispatcher: Dispatcher;
  readonly gates: LaneGates;
  readonly runs: Runs;
  readonly objectives: Objectives;
  readonly logger: Logger;
  /** Undefined where runs are not traced. */
  readonly tracing: Tracing | undefined;
}

/** How long a ticket is kept in hand that Redis does not let begin. */
const beginPatienceMs = 60_000;

/**
 * What a worker does with a ticket (async-broker.md 4.8): ask the record whether it may run, pass the gates, call the
 * target, store the outcome first and let the ticket go then.
 */
export class TicketRunner {
  readonly #options: TicketRunnerOptions;
  readonly #settler: Settler;

  constructor(options: TicketRunnerOptions) {
    this.#options = options;
    this.#settler = new Settler(options);
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
      return await this.#settler.settle(hand, await this.#work(hand));
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
}
