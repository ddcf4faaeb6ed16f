type Labels = Readonly<Record<string, string>>;

const secondBounds = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120];
const tokenBounds = [1, 10, 50, 100, 500, 1000, 5000, 10_000, 50_000, 100_000];

interface Histogram {
  bounds: readonly number[];
  counts: number[];
  sum: number;
  count: number;
}

const seconds = [
  'vllm:time_to_first_token_seconds',
  'vllm:inter_token_latency_seconds',
  'vllm:e2e_request_latency_seconds',
  'vllm:request_queue_time_seconds',
  'vllm:request_prefill_time_seconds',
  'vllm:request_decode_time_seconds',
  'vllm:request_inference_time_seconds',
] as const;
const tokens = ['vllm:request_prompt_tokens', 'vllm:request_generation_tokens'] as const;

/** Histograms of a worker, by vLLM's names. */
export type HistogramName = (typeof seconds)[number] | (typeof tokens)[number];

const counters = [
  'vllm:prefix_cache_queries_total',
  'vllm:prefix_cache_hits_total',
  'vllm:external_prefix_cache_hits_total',
  'vllm:prompt_tokens_total',
  'vllm:prompt_tokens_by_source_total',
  'vllm:generation_tokens_total',
  'vllm:request_success_total',
  'vllm:nixl_num_failed_transfers_total',
  'vllm:nixl_num_kv_expired_reqs_total',
  'vllm:nixl_num_notifications_after_expiry_total',
  'sim_local_prefill_total',
  'sim_local_encode_total',
  'sim_kv_pull_total',
  'sim_ec_pull_total',
  'sim_role_violation_total',
  'sim_uuid_mismatch_total',
  'sim_ignored_ec_params_total',
  'sim_aborted_total',
  'sim_fault_total',
  'sim_prefer_total',
  'sim_engine_death_total',
  'sim_room_abandoned_total',
] as const;

/** Counters of a worker: vLLM's names, and `sim_*` for what only a simulator can know. */
export type CounterName = (typeof counters)[number];

/** Counters that exist only with a label, so there is no zero to show. */
const labelled: ReadonlySet<CounterName> = new Set([
  'vllm:prompt_tokens_by_source_total',
  'vllm:request_success_total',
  'sim_kv_pull_total',
  'sim_ec_pull_total',
  'sim_fault_total',
  'sim_prefer_total',
]);

/** Values read at scrape time. */
export type Gauges = Readonly<Record<string, { value: number; labels?: Labels }>>;

const series = (name: string, labels: Labels): string =>
  `${name}{${Object.entries(labels)
    .map(([key, value]) => `${key}="${value.replace(/["\\\n]/g, '_')}"`)
    .join(',')}}`;

/** The counters and histograms of one worker, written in Prometheus text. */
export class Metrics {
  readonly #model: string;
  readonly #counts = new Map<string, number>();
  readonly #histograms = new Map<HistogramName, Histogram>();

  constructor(model: string) {
    this.#model = model;
    this.reset();
  }

  /** Adds to a counter. */
  count(name: CounterName, labels: Labels = {}, by = 1): void {
    const key = series(name, { model_name: this.#model, ...labels });
    this.#counts.set(key, (this.#counts.get(key) ?? 0) + by);
  }

  /** Sum of a counter over all its label sets. */
  total(name: CounterName): number {
    let sum = 0;
    for (const [key, value] of this.#counts) if (key.startsWith(`${name}{`)) sum += value;
    return sum;
  }

  /** Puts a value into a histogram, in the unit of its name. */
  observe(name: HistogramName, value: number): void {
    const histogram = this.#histograms.get(name);
    if (!histogram) return;
    const bucket = histogram.bounds.findIndex((bound) => value <= bound);
    if (bucket !== -1) histogram.counts[bucket] = (histogram.counts[bucket] ?? 0) + 1;
    histogram.sum += value;
    histogram.count += 1;
  }

  /** All of it, from the first second: a picker that scrapes too early must not find a gap. */
  text(gauges: Gauges): string {
    const lines: string[] = [];
    for (const [name, { value, labels }] of Object.entries(gauges)) {
      lines.push(`# TYPE ${name} gauge`);
      lines.push(`${series(name, { model_name: this.#model, ...labels })} ${value}`);
    }
    for (const name of counters) {
      lines.push(`# TYPE ${name} counter`);
      for (const [key, value] of this.#counts) {
        if (key.startsWith(`${name}{`)) lines.push(`${key} ${value}`);
      }
    }
    for (const [name, histogram] of this.#histograms) {
      lines.push(`# TYPE ${name} histogram`, ...this.#histogramLines(name, histogram));
    }
    return `${lines.join('\n')}\n`;
  }

  /** Back to zero; counters without labels stay visible. */
  reset(): void {
    this.#counts.clear();
    for (const name of counters) {
      if (!labelled.has(name)) this.count(name, {}, 0);
    }
    for (const [names, bounds] of [
      [seconds, secondBounds],
      [tokens, tokenBounds],
    ] as const) {
      for (const name of names) {
        this.#histograms.set(name, {
          bounds,
          counts: bounds.map(() => 0),
          sum: 0,
          count: 0,
        });
      }
    }
  }

  #histogramLines(name: string, { bounds, counts, sum, count }: Histogram): string[] {
    const model = { model_name: this.#model };
    let below = 0;
    const buckets = bounds.map((bound, index) => {
      below += counts[index] ?? 0;
      return `${series(`${name}_bucket`, { ...model, le: String(bound) })} ${below}`;
    });
    return [
      ...buckets,
      `${series(`${name}_bucket`, { ...model, le: '+Inf' })} ${count}`,
      `${series(`${name}_sum`, model)} ${sum}`,
      `${series(`${name}_count`, model)} ${count}`,
    ];
  }
}
