import { Counter, Histogram, type Registry } from 'prom-client';

/** Name, meaning and labels of a metric. */
export interface FamilyOptions<Label extends string> {
  readonly name: string;
  readonly help: string;
  readonly labelNames: readonly Label[];
  readonly registry: Registry;
}

/** One counter of a family. */
export class CounterSeries {
  value = 0;

  inc(by = 1): void {
    this.value += by;
  }
}

/** One histogram of a family. */
export class HistogramSeries {
  readonly #bounds: readonly number[];
  /** By bucket, the last beyond all bounds; not cumulative. */
  readonly counts: Float64Array;
  sum = 0;

  constructor(bounds: readonly number[]) {
    this.#bounds = bounds;
    this.counts = new Float64Array(bounds.length + 1);
  }

  observe(value: number): void {
    const bounds = this.#bounds;
    let bucket = 0;
    // The comparison is false for NaN too, which counts beyond all bounds.
    while (bucket < bounds.length && !(value <= (bounds[bucket] ?? 0))) bucket += 1;
    this.counts[bucket] = (this.counts[bucket] ?? 0) + 1;
    this.sum += value;
  }
}

/**
 * Series by the values of their labels. prom-client looks labels up on every count, which for the twenty counts of a
 * request is one part in twenty-five of its CPU (`npm run -s bench -- cascade`): here a series is looked up once and kept.
 */
class SeriesTable<Label extends string, Series> {
  readonly #names: readonly Label[];
  readonly #create: () => Series;
  readonly #series = new Map<string, { labels: Record<string, string>; series: Series }>();

  constructor(names: readonly Label[], create: () => Series) {
    this.#names = names;
    this.#create = create;
  }

  of(values: readonly string[]): Series {
    const key = JSON.stringify(values);
    let found = this.#series.get(key);
    if (!found) {
      const labels = Object.fromEntries(this.#names.map((name, i) => [name, values[i] ?? '']));
      found = { labels, series: this.#create() };
      this.#series.set(key, found);
    }
    return found.series;
  }

  remove(values: readonly string[]): void {
    this.#series.delete(JSON.stringify(values));
  }

  all(): Iterable<{ labels: Record<string, string>; series: Series }> {
    return this.#series.values();
  }
}

/** Counters that differ in their labels, each there from its first count on; one without labels from the start. */
export class CounterFamily<Label extends string> {
  readonly #table: SeriesTable<Label, CounterSeries>;

  constructor({ name, help, labelNames, registry }: FamilyOptions<Label>) {
    const table = new SeriesTable(labelNames, () => new CounterSeries());
    this.#table = table;
    new Counter<string>({
      ...{ name, help, labelNames },
      registers: [registry],
      collect() {
        this.reset();
        for (const { labels, series } of table.all()) {
          if (series.value > 0) this.inc(labels, series.value);
        }
      },
    });
  }

  /** The series of label values in the order of the names; made when it is new. */
  labels(...values: string[]): CounterSeries {
    return this.#table.of(values);
  }

  remove(...values: string[]): void {
    this.#table.remove(values);
  }
}

/** Histograms that differ in their labels, each there from its first value on. */
export class HistogramFamily<Label extends string> {
  readonly #table: SeriesTable<Label, HistogramSeries>;

  constructor(options: FamilyOptions<Label>, bounds: readonly number[]) {
    this.#table = new SeriesTable(options.labelNames, () => new HistogramSeries(bounds));
    new CollectedHistogram(options, bounds, this.#table);
  }

  /** The series of label values in the order of the names; made when it is new. */
  labels(...values: string[]): HistogramSeries {
    return this.#table.of(values);
  }

  remove(...values: string[]): void {
    this.#table.remove(values);
  }
}

type Exposed = Awaited<ReturnType<Histogram['get']>>;

/** What the registry sees of a family: prom-client has no other way to put counts into a histogram than one by one. */
class CollectedHistogram extends Histogram<string> {
  readonly #expose: () => Exposed;

  constructor(
    { name, help, labelNames, registry }: FamilyOptions<string>,
    bounds: readonly number[],
    table: SeriesTable<string, HistogramSeries>,
  ) {
    super({ name, help, labelNames, buckets: [...bounds], registers: [registry] });
    this.#expose = () => {
      const values: Exposed['values'] = [];
      for (const { labels, series } of table.all()) {
        if (series.counts.every((inBucket) => inBucket === 0)) continue;
        let count = 0;
        for (const [bucket, inBucket] of series.counts.entries()) {
          count += inBucket;
          const le = bounds[bucket] ?? '+Inf';
          values.push({ metricName: `${name}_bucket`, labels: { le, ...labels }, value: count });
        }
        values.push({ metricName: `${name}_sum`, labels, value: series.sum });
        values.push({ metricName: `${name}_count`, labels, value: count });
      }
      // The type is a name; the typings of prom-client have a number.
      return { name, help, type: 'histogram', aggregator: 'sum', values } as unknown as Exposed;
    };
  }

  override get(): Promise<Exposed> {
    return Promise.resolve(this.#expose());
  }

  /** The registry asks for this instead of `get` when it writes text. */
  getForPromString(): Promise<Exposed> {
    return this.get();
  }
}
