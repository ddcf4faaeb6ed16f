import { type CoordinatorError, type RequestContext, type TimelineEntry } from '@llm-d/pipeline';

/** How a request ended: `cancelled` when the client left first. */
export type Outcome = 'served' | 'failed' | 'cancelled';

/** One request in the log and at the debug listener. Times in milliseconds. */
export interface RequestSummary {
  readonly request_id: string;
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
  readonly ms: number;
  /** From the whole body received to the checked document. */
  readonly parse_ms: number;
  /** Time of each step that ran. */
  readonly steps: Readonly<Record<string, number>>;
  readonly request_bytes: number;
  readonly response_bytes: number;
}

/** Of a request what its summary tells. */
export type Summarized = Pick<
  RequestContext,
  'requestId' | 'path' | 'model' | 'isStreaming' | 'timeline' | 'elapsedMs'
>;

/** What the summary needs besides the context. */
export interface RequestEnd {
  readonly error: CoordinatorError | undefined;
  readonly status: number;
  readonly parseMs: number;
  readonly requestBytes: number;
  readonly responseBytes: number;
}

/** Puts a finished request into one object. */
export function summarize(ctx: Summarized, end: RequestEnd): RequestSummary {
  const { error } = end;
  const isCancelled = error?.code === 'CLIENT_GONE';
  const steps: Record<string, number> = {};
  for (const { kind, name, startMs, endMs } of ctx.timeline) {
    if (kind === 'step' && endMs !== undefined) steps[name] = rounded(endMs - startMs);
  }
  return {
    request_id: ctx.requestId,
    path: ctx.path,
    model: ctx.model,
    stream: ctx.isStreaming,
    outcome: isCancelled ? 'cancelled' : error ? 'failed' : 'served',
    status: isCancelled ? error.status : end.status,
    code: error?.code,
    step: error?.step,
    error: error?.message,
    ms: rounded(ctx.elapsedMs()),
    parse_ms: rounded(end.parseMs),
    steps,
    request_bytes: end.requestBytes,
    response_bytes: end.responseBytes,
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

/** Microseconds are as fine as anyone reads. */
function rounded(milliseconds: number): number {
  return Math.round(milliseconds * 1_000) / 1_000;
}
