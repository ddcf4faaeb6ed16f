import { type ErrorCode } from './error-code.ts';
import { type ExecutionPath } from './execution-path.ts';
import { type CounterFamily, type CounterSeries } from './families.ts';
import { memo } from './memo.ts';
import { type MetricFamilies } from './metric-families.ts';

/** Distinct values of the label `model_name`. */
const maxModels = 1_000;

/** A longer name is no model that anybody serves. */
const maxNameLength = 256;

const unknownModel = 'unknown';
const otherModels = 'other';

/** The series of one model, resolved once: looking labels up costs more than counting. */
export class ModelSeries {
  readonly name: string;
  /** Requests in flight. */
  running = 0;
  readonly total;
  readonly duration;
  readonly size;
  readonly #families: MetricFamilies;
  readonly #removals: (() => void)[] = [];
  readonly inputTokens;
  readonly error = memo((code: ErrorCode) => this.#kept(this.#families.requestErrors, code));
  readonly path = memo((path: ExecutionPath) => this.#kept(this.#families.executionPath, path));
  readonly usage = memo((kind: 'prompt' | 'completion' | 'cached') =>
    this.#kept(this.#families.usage, kind),
  );

  constructor(name: string, families: MetricFamilies) {
    this.name = name;
    this.#families = families;
    this.total = families.requests.labels(name);
    this.duration = families.requestDuration.labels(name);
    this.size = families.requestSize.labels(name);
    this.inputTokens = families.inputTokens.labels(name);
  }

  /** Takes the model's series out of the registry. */
  remove(): void {
    const { requests, requestDuration, requestSize, inputTokens } = this.#families;
    for (const family of [requests, requestDuration, requestSize, inputTokens]) {
      family.remove(this.name);
    }
    for (const remove of this.#removals) remove();
  }

  #kept(family: CounterFamily<string>, value: string): CounterSeries {
    this.#removals.push(() => {
      family.remove(this.name, value);
    });
    return family.labels(this.name, value);
  }
}

/**
 * Bounds the label `model_name`. Names are free text of clients: a name that has never been served makes room for a new one
 * when the table is full, so that made-up names cannot keep real models out (coordinator.md 10.31). What finds no
 * room counts as `other`.
 */
export class ModelTable {
  readonly unknown: ModelSeries;
  readonly #other: ModelSeries;
  readonly #families: MetricFamilies;
  readonly #known = new Map<string, ModelSeries>();
  /** Of the known those that no request was served for, oldest first. */
  readonly #unproven = new Set<ModelSeries>();

  constructor(families: MetricFamilies) {
    this.#families = families;
    this.unknown = new ModelSeries(unknownModel, families);
    this.#other = new ModelSeries(otherModels, families);
  }

  /** The series for a model name; the empty name is `unknown`. */
  of(name: string): ModelSeries {
    if (name === '' || name === unknownModel) return this.unknown;
    const known = this.#known.get(name);
    if (known) return known;
    const isTaken = name === otherModels || name.length > maxNameLength;
    if (isTaken || (this.#known.size >= maxModels && !this.#makeRoom())) return this.#other;
    const series = new ModelSeries(name, this.#families);
    this.#known.set(name, series);
    this.#unproven.add(series);
    return series;
  }

  /** A request for the model was served: its series stay for good. */
  prove(series: ModelSeries): void {
    this.#unproven.delete(series);
  }

  /** All series that count something. */
  *all(): Generator<ModelSeries> {
    yield this.unknown;
    yield this.#other;
    yield* this.#known.values();
  }

  #makeRoom(): boolean {
    for (const series of this.#unproven) {
      if (series.running > 0) continue;
      series.remove();
      this.#unproven.delete(series);
      return this.#known.delete(series.name);
    }
    return false;
  }
}
