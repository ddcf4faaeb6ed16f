import { legName, type Logger, type RequestObserver, type TimelineEntry } from '@llm-d/pipeline';

/** Writes a line when a step or leg starts and when it is over; for level trace. */
export class StepTrace implements RequestObserver {
  readonly #log: Logger;

  constructor(log: Logger) {
    this.#log = log;
  }

  started(entry: TimelineEntry): void {
    this.#log.trace?.(named(entry), `${entry.kind} started`);
  }

  finished(entry: TimelineEntry, error: unknown): void {
    const { startMs, endMs = startMs, status } = entry;
    const fields = { ...named(entry), ms: endMs - startMs, status, failed: error !== undefined };
    this.#log.trace?.(fields, `${entry.kind} complete`);
  }
}

function named(entry: TimelineEntry): object {
  const { kind, name, index } = entry;
  return kind === 'step' ? { step: name } : { step: name, leg: legName(entry), index };
}
