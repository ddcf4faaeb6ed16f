import {
  type Span,
  SpanKind,
  SpanStatusCode,
  ROOT_CONTEXT,
  trace,
  type Tracer,
} from '@opentelemetry/api';
import { attribute } from './trace-attributes.ts';
import { contextHeaders, traceIds } from './trace-context.ts';
import { type CallTrace, type RunTrace, type TraceIds } from './tracing.ts';

/** The spans of one run, by the names of llm-d-async. */
export class OtelRunTrace implements RunTrace {
  readonly ids: TraceIds;
  readonly #tracer: Tracer;
  readonly #span: Span;

  constructor(tracer: Tracer, span: Span) {
    this.ids = traceIds(span.spanContext());
    this.#tracer = tracer;
    this.#span = span;
  }

  beginCall(requestId: string): CallTrace {
    const span = this.#child('http-request', SpanKind.CLIENT);
    span.setAttribute(attribute.runRequestId, requestId);
    const [, traceparent = ''] = contextHeaders(span.spanContext());
    return {
      traceparent,
      end: ({ status, fault }) => {
        if (status !== undefined) span.setAttribute(attribute.status, status);
        const category = categoryOf(status);
        if (category !== undefined) {
          for (const failed of [span, this.#span]) {
            failed.setAttribute(attribute.errorCategory, category);
            failed.setAttribute(attribute.errorType, fault ?? String(status));
            failed.setStatus({ code: SpanStatusCode.ERROR });
          }
        }
        span.end();
      },
    };
  }

  beginReEnqueue(): () => void {
    const span = this.#child('re-enqueue', SpanKind.PRODUCER);
    return () => {
      span.end();
    };
  }

  end(): void {
    this.#span.end();
  }

  #child(name: string, kind: SpanKind): Span {
    return this.#tracer.startSpan(name, { kind }, trace.setSpan(ROOT_CONTEXT, this.#span));
  }
}

/** The classes of llm-d-async; undefined for a success. */
function categoryOf(status: number | undefined): string | undefined {
  if (status === undefined) return 'UNKNOWN';
  if (status < 400) return undefined;
  if (status === 429) return 'RATE_LIMIT';
  return status < 500 ? 'INVALID_REQ' : 'SERVER_ERROR';
}
