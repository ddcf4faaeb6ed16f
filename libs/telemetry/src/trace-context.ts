import { type SpanContext, TraceFlags } from '@opentelemetry/api';
import { type TraceIds } from './tracing.ts';

/** A span as W3C trace context, for the headers of a leg; names and values in turn. */
export function contextHeaders(context: SpanContext): string[] {
  const { traceId, spanId, traceFlags, traceState } = context;
  const flags = traceFlags & TraceFlags.SAMPLED ? '01' : '00';
  const headers = ['traceparent', `00-${traceId}-${spanId}-${flags}`];
  const state = traceState?.serialize();
  if (state) headers.push('tracestate', state);
  return headers;
}

/** A span as log lines name it. */
export function traceIds({ traceId, spanId }: SpanContext): TraceIds {
  return { trace_id: traceId, span_id: spanId };
}
