import { TransportError } from '@llm-d/gateway';
import { CoordinatorError } from '@llm-d/pipeline';
import { type Span, SpanStatusCode } from '@opentelemetry/api';
import { attribute } from './trace-attributes.ts';

/** Marks a span as failed. Only texts of ours describe it: those of other errors may repeat what an upstream said. */
export function markFailed(span: Span, error: unknown): void {
  span.setAttribute(attribute.errorType, errorType(error));
  const isOurs = error instanceof CoordinatorError || error instanceof TransportError;
  const message = isOurs ? error.message : 'internal error';
  span.setStatus({ code: SpanStatusCode.ERROR, message });
}

function errorType(error: unknown): string {
  if (error instanceof CoordinatorError) return error.code;
  if (error instanceof TransportError) return error.fault;
  return '_OTHER';
}
