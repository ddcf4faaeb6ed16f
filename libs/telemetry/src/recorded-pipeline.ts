import { type Api } from '@llm-d/gateway';
import { type CoordinatorError, type TimelineEntry } from '@llm-d/pipeline';
import { type Span, type Tracer } from '@opentelemetry/api';
import { executionPath } from './execution-path.ts';
import { markFailed } from './mark-failed.ts';
import { type RequestClock } from './request-clock.ts';
import { SpanObserver } from './span-observer.ts';
import { attribute } from './trace-attributes.ts';
import { type PipelineTrace, type TracedContext } from './tracing.ts';

/** How OpenTelemetry calls what the APIs do. */
const operations: Record<Api, string> = {
  chat: 'chat',
  responses: 'chat',
  completions: 'text_completion',
  generate: 'generate_content',
};

/** One run of the pipeline whose spans are kept. */
export class RecordedPipeline extends SpanObserver implements PipelineTrace {
  readonly #clock: RequestClock;
  readonly #span: Span;
  readonly #onEnd: (error: CoordinatorError | undefined) => void;
  readonly #started = new Set<string>();

  constructor(
    tracer: Tracer,
    clock: RequestClock,
    span: Span,
    onEnd: (error: CoordinatorError | undefined) => void,
  ) {
    super(tracer, clock, span);
    this.#clock = clock;
    this.#span = span;
    this.#onEnd = onEnd;
  }

  override started(entry: TimelineEntry): void {
    if (entry.kind === 'step') this.#started.add(entry.name);
    super.started(entry);
  }

  end({ api, model, promptTokens }: TracedContext, error: CoordinatorError | undefined): void {
    const path = executionPath(this.#started);
    this.#span.setAttribute(attribute.operation, operations[api]);
    if (model !== '') this.#span.setAttribute(attribute.model, model);
    if (promptTokens !== undefined) this.#span.setAttribute(attribute.inputTokens, promptTokens);
    if (path) this.#span.setAttribute(attribute.executionPath, path);
    if (error) markFailed(this.#span, error);
    this.#span.end(this.#clock.now());
    this.#onEnd(error);
  }
}
