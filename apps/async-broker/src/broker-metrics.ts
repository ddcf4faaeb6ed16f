import { type BrokerObserver, type CancelReason } from '@llm-d/broker';
import { readUsage } from '@llm-d/pipeline';
import { metricsText, type MetricsText } from '@llm-d/telemetry';
import { Counter, Histogram, Registry } from 'prom-client';
import { type EndedAttempt, type RunObserver } from './work/run-observer.ts';
import { type GateReason } from './gates/lane-gates.ts';
import { addGauges, type GaugeSources } from './broker-gauges.ts';
import { names, queueLabel, type QueueLabel, queueLabels } from './metric-labels.ts';

const millis = [10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000, 120_000];
const seconds = [0.1, 0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1_800, 3_600, 86_400];
const commandSeconds = [0.0002, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 2.1];
const bytes = [
  256, 1_024, 4_096, 16_384, 65_536, 262_144, 1_048_576, 4_194_304, 16_777_216, 67_108_864,
];
/** Usage stands at the end of an answer. */
const usageTailBytes = 65_536;

/** The metrics of the processor: those of llm-d-async by its names, and our own (async-broker.md 3.7, 4.16). */
export class BrokerMetrics implements RunObserver {
  readonly registry = new Registry();
  readonly #requests = this.#queueCounter('async_request_total', 'First attempts of requests.');
  readonly #retries = this.#queueCounter('async_request_retries_total', 'Further attempts.');
  readonly #successful = this.#queueCounter(
    'async_successful_requests_total',
    'Attempts with a 2xx or 3xx answer.',
  );
  readonly #failed = this.#queueCounter(
    'async_failed_requests_total',
    'Attempts that ended a request with an error.',
  );
  readonly #shedded = this.#queueCounter(
    'async_shedded_requests_total',
    'Attempts that the target refused with 429.',
  );
  readonly #exceeded = this.#queueCounter(
    'async_exceeded_deadline_requests_total',
    'Attempts that a deadline or the attempt timeout ended.',
  );
  readonly #gates = new Counter({
    ...this.#named(names.upstream, 'async_gate_decisions_total', 'Requests that a gate held up.'),
    labelNames: [...queueLabels, 'reason'],
  });
  readonly #latency = new Histogram({
    ...this.#named(
      names.upstream,
      'async_inference_latency_time_millis',
      'Attempt, sent to read whole.',
    ),
    labelNames: queueLabels,
    buckets: millis,
  });
  readonly #residence = new Histogram({
    ...this.#named(
      names.upstream,
      'async_queue_residence_time_millis',
      'From admission to an attempt.',
    ),
    labelNames: queueLabels,
    buckets: [...millis, 600_000, 3_600_000],
  });
  readonly #redeliveries = this.#ownCounter('redeliveries_total', 'Tickets taken again.', 'lane');
  readonly #results = this.#ownCounter('results_total', 'Outcomes stored.', 'outcome');
  readonly #duplicates = this.#ownCounter(
    'duplicate_results_total',
    'Outcomes discarded because another was first.',
  );
  readonly #orphans = this.#ownCounter(
    'orphan_results_total',
    'Outcomes discarded because nobody wants them any more.',
  );
  readonly #cancellations = this.#ownCounter(
    'cancellations_total',
    'Requests that were cancelled while this process had them.',
    ...['phase', 'reason'],
  );
  readonly #repairs = this.#ownCounter('sweeper_repairs_total', 'What a sweep mended.', 'kind');
  readonly #proximity = this.#ownHistogram(
    'deadline_proximity_seconds',
    'Time left at an attempt.',
    seconds,
  );
  readonly #tokens = this.#ownCounter('tokens_total', 'Tokens by usage.', 'direction');
  readonly #bodyBytes = this.#ownHistogram('body_bytes', 'Request bodies at an attempt.', bytes);
  readonly #resultBytes = this.#ownHistogram('result_bytes', 'Answers of attempts.', bytes);
  readonly #commands = new Histogram({
    ...this.#named(names.own, 'redis_command_seconds', 'Calls of Redis.'),
    labelNames: ['script'],
    buckets: commandSeconds,
  });

  /** For `openBroker`. */
  readonly broker: BrokerObserver = {
    onCommand: (script, duration) => this.#commands.observe({ script }, duration),
    onRepair: (kind) => this.#repairs.inc({ kind }),
    onRedelivery: (lane) => this.#redeliveries.inc({ lane }),
    onOutcome: (outcome) => this.#results.inc({ outcome }),
    onDiscarded: (why) => (why === 'already' ? this.#duplicates : this.#orphans).inc(),
  };

  /** Adds the gauges; to be called once. */
  watch(sources: GaugeSources): void {
    addGauges(this.registry, sources);
  }

  /** Makes the counters of a lane appear with 0. */
  addLane(lane: string): void {
    const labels = queueLabel(lane);
    for (const counter of [
      ...[this.#requests, this.#retries, this.#successful],
      ...[this.#failed, this.#shedded, this.#exceeded],
    ]) {
      counter.inc(labels, 0);
    }
    for (const reason of ['gate_closed', 'quota_exhausted', 'dropped', 'error']) {
      this.#gates.inc({ ...labels, reason }, 0);
    }
    this.#redeliveries.inc({ lane }, 0);
  }

  onHeldUp(reason: GateReason, lane: string): void {
    this.#gates.inc({ ...queueLabel(lane), reason });
  }

  onAttempt(attempt: Parameters<RunObserver['onAttempt']>[0]): void {
    const { lane, retries, ageMs, remainingMs, bodyBytes } = attempt;
    (retries === 0 ? this.#requests : this.#retries).inc(queueLabel(lane));
    this.#residence.observe(queueLabel(lane), ageMs);
    this.#proximity.observe(Math.max(remainingMs, 0) / 1000);
    this.#bodyBytes.observe(bodyBytes);
  }

  onAttemptEnd(attempt: EndedAttempt): void {
    const { lane, status, decision, isDeadline, durationMs, resultBytes, answer } = attempt;
    const labels = queueLabel(lane);
    this.#latency.observe(labels, durationMs);
    if (status === 429) this.#shedded.inc(labels);
    if (isDeadline) this.#exceeded.inc(labels);
    const isStored = decision === 'store' && status !== undefined;
    if (isStored && status < 400) this.#successful.inc(labels);
    if (decision === 'fail' || (isStored && status >= 400)) this.#failed.inc(labels);
    if (!answer) return;
    this.#resultBytes.observe(resultBytes);
    const usage = readUsage(answer.subarray(-usageTailBytes));
    if (usage?.promptTokens) this.#tokens.inc({ direction: 'input' }, usage.promptTokens);
    if (usage?.completionTokens) this.#tokens.inc({ direction: 'output' }, usage.completionTokens);
  }

  onCancelled(phase: 'queued' | 'active', reason: CancelReason | undefined): void {
    this.#cancellations.inc({ phase, reason: reason ?? 'unknown' });
  }

  /** Everything as text, in the format that an `accept` header asks for. */
  text(accept: string | undefined): Promise<MetricsText> {
    return metricsText(this.registry, accept);
  }

  #queueCounter(name: string, help: string): Counter<QueueLabel> {
    return new Counter({ ...this.#named(names.upstream, name, help), labelNames: queueLabels });
  }

  #ownCounter(name: string, help: string, ...labelNames: string[]): Counter {
    return new Counter({ ...this.#named(names.own, name, help), labelNames });
  }

  #ownHistogram(name: string, help: string, buckets: number[]): Histogram {
    return new Histogram({ ...this.#named(names.own, name, help), buckets });
  }

  #named(prefix: string, name: string, help: string) {
    return { name: prefix + name, help, registers: [this.registry] };
  }
}
