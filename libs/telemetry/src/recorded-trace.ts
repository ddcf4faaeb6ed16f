import { type CoordinatorError, type RequestObserver, ResponseStartedError } from '@llm-d/pipeline';
import {
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  SpanStatusCode,
  trace,
  type Tracer,
} from '@opentelemetry/api';
import { markFailed } from './mark-failed.ts';
import { RecordedPipeline } from './recorded-pipeline.ts';
import { type RequestClock } from './request-clock.ts';
import { SpanObserver } from './span-observer.ts';
import { attribute } from './trace-attributes.ts';
import { traceIds } from './trace-context.ts';
import { type EndedWork, type PipelineTrace, type RequestTrace, type TraceIds } from './tracing.ts';

/** A request whose spans are kept. */
export class RecordedTrace implements RequestTrace {
  readonly ids: TraceIds;
  readonly observer: RequestObserver;
  readonly #tracer: Tracer;
  readonly #clock: RequestClock;
  readonly #span: Span;
  readonly #method: string;
  #openPipelines = 0;
  #isClosed = false;
  #error: CoordinatorError | undefined;

  constructor(tracer: Tracer, clock: RequestClock, span: Span, method: string) {
    this.#tracer = tracer;
    this.#clock = clock;
    this.#span = span;
    this.#method = method;
    this.ids = traceIds(span.spanContext());
    this.observer = new SpanObserver(tracer, clock, span);
  }

  identify(requestId: string, route?: string): void {
    this.#span.setAttribute(attribute.requestId, requestId);
    if (route === undefined) return;
    this.#span.setAttribute(attribute.route, route);
    this.#span.updateName(`${this.#method} ${route}`);
  }

  record({ name, durationMs, attributes, error }: EndedWork): void {
    const span = this.#tracer.startSpan(
      name,
      { kind: SpanKind.CLIENT, startTime: this.#clock.before(durationMs), attributes },
      trace.setSpan(ROOT_CONTEXT, this.#span),
    );
    if (error) {
      span.setAttribute(attribute.errorType, error.type);
      span.setStatus({ code: SpanStatusCode.ERROR, message: error.message });
    }
    span.end(this.#clock.now());
  }

  fail(error: CoordinatorError): void {
    this.#error ??= error;
  }

  beginPipeline(stepCount: number): PipelineTrace {
    const span = this.#tracer.startSpan(
      'pipeline',
      { startTime: this.#clock.now(), attributes: { [attribute.stepCount]: stepCount } },
      trace.setSpan(ROOT_CONTEXT, this.#span),
    );
    this.#openPipelines += 1;
    return new RecordedPipeline(this.#tracer, this.#clock, span, (error) => {
      this.#openPipelines -= 1;
      if (error) this.fail(error);
      this.#endWhenDone();
    });
  }

  /** The connection has taken the response, or is gone; `status` is what was sent. */
  responseClosed(status: number | undefined): void {
    if (status !== undefined) this.#span.setAttribute(attribute.status, status);
    this.#isClosed = true;
    if (status !== undefined && status >= 500 && !this.#error) {
      this.#span.setAttribute(attribute.errorType, String(status));
      this.#span.setStatus({ code: SpanStatusCode.ERROR });
    }
    this.#endWhenDone();
  }

  /** A client that leaves ends its response before the pipeline has noticed. */
  #endWhenDone(): void {
    if (!this.#isClosed || this.#openPipelines > 0) return;
    if (this.#error) describeError(this.#span, this.#error);
    this.#span.end(this.#clock.now());
  }
}

/** What a client did wrong is no failure of the server. */
function describeError(span: Span, error: CoordinatorError): void {
  const isBroken = error instanceof ResponseStartedError && error.status === 0;
  if (error.status >= 500 || isBroken) markFailed(span, error);
  else span.setAttribute(attribute.errorType, error.code);
}
