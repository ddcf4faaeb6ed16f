import { type RequestObserver, type TimelineEntry } from '@llm-d/pipeline';
import { ROOT_CONTEXT, type Span, SpanKind, trace, type Tracer } from '@opentelemetry/api';
import { markFailed } from './mark-failed.ts';
import { type RequestClock } from './request-clock.ts';
import { attribute } from './trace-attributes.ts';
import { contextHeaders } from './trace-context.ts';

/** One span for each step below a parent, and one for each leg below its step. */
export class SpanObserver implements RequestObserver {
  readonly #tracer: Tracer;
  readonly #clock: RequestClock;
  readonly #parent: Span;
  readonly #open = new Map<TimelineEntry, Span>();
  #step: Span | undefined;

  constructor(tracer: Tracer, clock: RequestClock, parent: Span) {
    this.#tracer = tracer;
    this.#clock = clock;
    this.#parent = parent;
  }

  started(entry: TimelineEntry): void {
    const isStep = entry.kind === 'step';
    const kind = isStep ? SpanKind.INTERNAL : SpanKind.CLIENT;
    const parent = isStep ? this.#parent : (this.#step ?? this.#parent);
    const span = this.#tracer.startSpan(
      isStep ? entry.name : `${entry.name} leg`,
      { kind, startTime: this.#clock.now() },
      trace.setSpan(ROOT_CONTEXT, parent),
    );
    if (isStep) this.#step = span;
    this.#open.set(entry, span);
  }

  legHeaders(leg: TimelineEntry): readonly string[] {
    const span = this.#open.get(leg);
    return span ? contextHeaders(span.spanContext()) : [];
  }

  finished(entry: TimelineEntry, error: unknown): void {
    const span = this.#open.get(entry);
    if (!span) return;
    this.#open.delete(entry);
    if (entry.kind === 'step') this.#step = undefined;
    else describeLeg(span, entry);
    if (error !== undefined) markFailed(span, error);
    span.end(this.#clock.now());
  }
}

function describeLeg(span: Span, leg: TimelineEntry): void {
  const known = {
    [attribute.phase]: leg.phase,
    [attribute.legIndex]: leg.index,
    [attribute.servedBy]: leg.servedBy,
    [attribute.status]: leg.status,
    [attribute.requestBytes]: leg.requestBytes,
    [attribute.responseBytes]: leg.responseBytes,
  };
  for (const [name, value] of Object.entries(known)) {
    if (value !== undefined) span.setAttribute(name, value);
  }
}
