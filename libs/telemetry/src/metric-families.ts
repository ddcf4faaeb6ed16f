import { Counter, Gauge, type Registry } from 'prom-client';
import { bytesBuckets, countBuckets, secondsBuckets, tokensBuckets } from './buckets.ts';
import { CounterFamily, HistogramFamily } from './families.ts';

/** Every metric of the coordinator begins with this. */
const prefix = 'llm_d_coordinator_';

/** What is looked at when the metrics are asked for; an `Admission` fits. */
export interface WatchedAdmission {
  readonly queued: number;
  readonly bodyBytesHeld: number;
  /** By reason, since the start. */
  readonly refused: Readonly<Record<string, number>>;
}

/** The metrics of coordinator.md 8.1 and, at the end, ours. Registers them; may be called once for a registry. */
export function metricFamilies(
  registry: Registry,
  running: {
    requests(gauge: Gauge<'model_name'>): void;
    steps(gauge: Gauge<'step'>): void;
    /** Undefined as long as nothing is limited. */
    admission(): WatchedAdmission | undefined;
  },
) {
  const about = (name: string, help: string) => ({ name: prefix + name, help, registry });
  const common = (name: string, help: string) => ({
    name: prefix + name,
    help,
    registers: [registry],
  });
  const counter = <const Label extends string>(
    name: string,
    help: string,
    labelNames: readonly Label[],
  ) => new CounterFamily({ ...about(name, help), labelNames });
  const histogram = <const Label extends string>(
    name: string,
    help: string,
    buckets: number[],
    labelNames: readonly Label[],
  ) => new HistogramFamily({ ...about(name, help), labelNames }, buckets);

  return {
    requests: counter('request_total', 'Inference requests that ended.', ['model_name']),
    requestErrors: counter('request_error_total', 'Inference requests that failed.', [
      'model_name',
      'error_code',
    ]),
    requestDuration: histogram(
      'request_duration_seconds',
      'Time from the arrival of a request to its end.',
      secondsBuckets,
      ['model_name'],
    ),
    requestSize: histogram('request_size_bytes', 'Body bytes of requests.', bytesBuckets, [
      'model_name',
    ]),
    inputTokens: histogram('request_input_tokens', 'Tokens of rendered prompts.', tokensBuckets, [
      'model_name',
    ]),
    requestRunning: new Gauge({
      ...common('request_running', 'Inference requests in flight.'),
      labelNames: ['model_name'],
      collect() {
        running.requests(this);
      },
    }),
    stepDuration: histogram('step_duration_seconds', 'Time that steps took.', secondsBuckets, [
      'step',
    ]),
    stepErrors: counter('step_errors_total', 'Steps that failed.', ['step', 'error_code']),
    stepRunning: new Gauge({
      ...common('step_running', 'Steps in flight.'),
      labelNames: ['step'],
      collect() {
        running.steps(this);
      },
    }),
    upstreamRequests: counter('upstream_request_total', 'Calls to upstreams.', ['upstream']),
    upstreamDuration: histogram(
      'upstream_request_duration_seconds',
      'Time until the headers of an upstream came, or its failure.',
      secondsBuckets,
      ['upstream'],
    ),
    executionPath: counter('execution_path_total', 'Requests by the phases that ran for them.', [
      'model_name',
      'path',
    ]),
    probes: counter('conditional_decode_probes_total', 'Conditional decode calls by outcome.', [
      'result',
    ]),
    encodeSubrequests: histogram(
      'encode_subrequests',
      'Encode calls of one request.',
      countBuckets,
      ['route'],
    ),
    overhead: histogram(
      'orchestration_overhead_seconds',
      'Time of a request outside of parsing and steps.',
      secondsBuckets,
      ['route'],
    ),
    mediaItems: histogram('media_items', 'Media items of one request.', countBuckets, [
      'media_type',
    ]),
    mediaDownload: histogram(
      'media_download_duration_seconds',
      'Time of media downloads.',
      secondsBuckets,
      ['result'],
    ),
    responseSize: histogram(
      'response_size_bytes',
      'Body bytes written to clients, errors and broken answers included.',
      bytesBuckets,
      ['stream'],
    ),
    queued: new Gauge({
      ...common('admission_queued', 'Requests that wait for their turn.'),
      collect() {
        this.set(running.admission()?.queued ?? 0);
      },
    }),
    bodyBytesHeld: new Gauge({
      ...common('admission_body_bytes', 'Bytes of the request bodies in memory.'),
      collect() {
        this.set(running.admission()?.bodyBytesHeld ?? 0);
      },
    }),
    turnedAway: new Counter({
      ...common('admission_refused_total', 'Requests that were turned away.'),
      labelNames: ['reason'],
      collect() {
        this.reset();
        const refused = Object.entries(running.admission()?.refused ?? {});
        for (const [reason, count] of refused) this.inc({ reason }, count);
      },
    }),
    handoffsOffered: {
      kv: counter('kv_handoffs_offered_total', 'KV hand-offs that prefill answers offered.', [
        'connector',
      ]),
      ec: counter('ec_handoffs_offered_total', 'EC hand-offs that encode answers offered.', [
        'connector',
      ]),
    },
    handoffs: {
      kv: counter('kv_handoffs_total', 'KV hand-offs that ended, by outcome.', [
        'connector',
        'outcome',
      ]),
      ec: counter('ec_handoffs_total', 'EC hand-offs that ended, by outcome.', [
        'connector',
        'outcome',
      ]),
    },
    usage: counter('usage_tokens_total', 'Tokens as the usage of answers tells them.', [
      'model_name',
      'kind',
    ]),
    unreadableUsage: counter(
      'unreadable_usage_total',
      'Answers whose usage could not be read.',
      [],
    ),
  };
}

/** What `metricFamilies` makes. */
export type MetricFamilies = ReturnType<typeof metricFamilies>;
