import { type Phase } from '@llm-d/gateway';

/** When a step or leg ran, in milliseconds since the request arrived, and what a leg carried. */
export interface TimelineEntry {
  /** Step name; a leg has its step's name too. */
  readonly name: string;
  readonly kind: 'step' | 'leg';
  /** Position among the legs of one step; in a batch of prompts, also of steps, the position of the prompt. */
  readonly index?: number | undefined;
  /** Undefined for steps, and for legs that do not go through the gateway. */
  readonly phase?: Phase | undefined;
  readonly startMs: number;
  /** When a leg's status and headers came. */
  headersMs?: number;
  endMs?: number;
  /** Status that a leg got; undefined when no answer came. */
  status?: number;
  /** Body bytes that a leg sent. */
  requestBytes?: number;
  /** Body bytes that a leg got, as far as they came. */
  responseBytes?: number;
  /** How often a leg was sent again because its connection was stale. */
  retries?: number;
  /** The pod that a gateway says it chose, for example `10.0.0.7:8000`. */
  servedBy?: string;
}

/** What a leg is called in metrics, logs and receipts: its phase, except where a step asks on its own terms. */
export function legName({ name, phase }: Pick<TimelineEntry, 'name' | 'phase'>): string {
  return name === 'conditional-decode' ? name : (phase ?? name);
}

/** Hears of the steps and legs of one request while it runs, for metrics and traces. Must not throw. */
export interface RequestObserver {
  /**
   * A leg starts within the step that started last and has not finished. The prompts of a batch run side by side: there
   * it is the step of the leg's name and index.
   */
  started(entry: TimelineEntry): void;
  /** Headers that a leg carries, such as `traceparent`; names and values in turn. */
  legHeaders?(leg: TimelineEntry): readonly string[];
  /** `error` is what the step or leg failed with; absent when it went well. */
  finished(entry: TimelineEntry, error: unknown): void;
}
