import {
  type CoordinatorError,
  type RequestContext,
  summarizeHandoffs,
  type TimelineEntry,
  type Usage,
} from '@llm-d/pipeline';
import { type Receipt, type Receipted, receiptOf } from './receipt.ts';
import { rounded } from './rounded.ts';

/** How a request ended: `cancelled` when the client left first. */
export type Outcome = 'served' | 'failed' | 'cancelled';

/** One request in the log and at the debug listener: its receipt and how it ended. */
export interface RequestSummary extends Receipt {
  readonly path: string;
  readonly model: string;
  readonly stream: boolean;
  readonly outcome: Outcome;
  /** What the client got; 499 when it left, 0 when nothing was sent. */
  readonly status: number;
  readonly code: string | undefined;
  /** The step that failed. */
  readonly step: string | undefined;
  readonly error: string | undefined;
  /** From the arrival of the request to the checked document. */
  readonly parse_ms: number;
  /** Hand-offs by kind and state; those that are being released end after this line. */
  readonly handoffs: ReturnType<typeof summarizeHandoffs>;
  readonly request_bytes: number;
  readonly response_bytes: number;
  /** As the answer's usage tells. */
  readonly completion_tokens: number | undefined;
  readonly cached_tokens: number | undefined;
}

/** Of a request what its summary tells. */
export type Summarized = Receipted &
  Pick<RequestContext, 'path' | 'model' | 'isStreaming'> &
  Partial<Pick<RequestContext, 'handoffs'>>;

/** What the summary needs besides the context. */
export interface RequestEnd {
  readonly error: CoordinatorError | undefined;
  readonly status: number;
  readonly parseMs: number;
  readonly requestBytes: number;
  readonly responseBytes: number;
  /** What the answer says about tokens; null when it cannot be read. */
  readonly usage?: Usage | null | undefined;
}

/** Puts a finished request into one object. */
export function summarize(ctx: Summarized, end: RequestEnd): RequestSummary {
  const { error, usage } = end;
  const isCancelled = error?.code === 'CLIENT_GONE';
  const receipt = receiptOf(ctx);
  return {
    ...receipt,
    path: ctx.path,
    model: ctx.model,
    stream: ctx.isStreaming,
    outcome: isCancelled ? 'cancelled' : error ? 'failed' : 'served',
    status: isCancelled ? error.status : end.status,
    code: error?.code,
    step: error?.step,
    error: error?.message,
    parse_ms: rounded(end.parseMs),
    handoffs: summarizeHandoffs(ctx.handoffs),
    request_bytes: end.requestBytes,
    response_bytes: end.responseBytes,
    prompt_tokens: receipt.prompt_tokens ?? usage?.promptTokens,
    completion_tokens: usage?.completionTokens,
    cached_tokens: usage?.cachedTokens,
  };
}

/** A step or leg as the debug listener shows it. */
export function timelineOf(entries: readonly TimelineEntry[]): object[] {
  return entries.map(({ name, kind, index, startMs, endMs, status }) => ({
    name,
    kind,
    index,
    start_ms: rounded(startMs),
    end_ms: endMs === undefined ? undefined : rounded(endMs),
    status,
  }));
}
