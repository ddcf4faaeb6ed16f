import { type RequestObserver } from '@llm-d/pipeline';
import { type SpanContext } from '@opentelemetry/api';
import { contextHeaders, traceIds } from './trace-context.ts';
import { type PipelineTrace, type RequestTrace, type TraceIds } from './tracing.ts';

/** A request of which no span is kept. Its legs and log lines name the trace all the same. */
export class UnsampledTrace implements RequestTrace, PipelineTrace {
  readonly ids: TraceIds;
  readonly #context: SpanContext;
  #headers: readonly string[] | undefined;

  constructor(context: SpanContext) {
    this.ids = traceIds(context);
    this.#context = context;
  }

  get observer(): RequestObserver {
    return this;
  }

  identify(): void {}

  record(): void {}

  fail(): void {}

  beginPipeline(): PipelineTrace {
    return this;
  }

  started(): void {}

  legHeaders(): readonly string[] {
    return (this.#headers ??= contextHeaders(this.#context));
  }

  finished(): void {}

  end(): void {}
}
