import { type IncomingMessage, type Server } from 'node:http';
import { type CoordinatorError, type RequestContext, type RequestObserver } from '@llm-d/pipeline';
import { type Logger } from './pino-logger.ts';
import { readTracingOptions } from './tracing-options.ts';

/** The span of a request as log lines name it. */
export interface TraceIds {
  readonly trace_id: string;
  readonly span_id: string;
}

/** Of a request what its pipeline span tells at the end. */
export type TracedContext = Pick<RequestContext, 'api' | 'model' | 'promptTokens'>;

/** The span of one run of the pipeline; hears of its steps and legs. */
export interface PipelineTrace extends RequestObserver {
  /** To be called once; `error` is what the run failed with. */
  end(ctx: TracedContext, error: CoordinatorError | undefined): void;
}

/** Work for a request that is over. */
export interface EndedWork {
  readonly name: string;
  readonly durationMs: number;
  /** What is undefined is left out. */
  readonly attributes: Readonly<Record<string, string | number | undefined>>;
  /** What it failed with, in words of ours. */
  readonly error?: { readonly type: string; readonly message: string } | undefined;
}

/** The server span of one request. It ends with the response, but not before its pipelines. */
export interface RequestTrace {
  readonly ids: TraceIds;
  /** Takes the legs of a request that is served without a pipeline. */
  readonly observer: RequestObserver;
  /** Adds what routing knows; `route` is the template, undefined where a path has none of its own. */
  identify(requestId: string, route?: string): void;
  beginPipeline(stepCount: number): PipelineTrace;
  /** Adds a span below that of the request, for work that another server had a part in. */
  record(work: EndedWork): void;
  /** Notes what a request without a pipeline failed with. */
  fail(error: CoordinatorError): void;
}

/** A queued request that a worker has in hand. */
export interface TracedRun {
  /** As it was stored with the request: the run belongs to the trace that submitted it. */
  readonly traceparent?: string;
  readonly lane: string;
  readonly retries: number;
}

/** The span of one run of a queued request, and those below it. */
export interface RunTrace {
  readonly ids: TraceIds;
  /** Begins a call to the target; `requestId` is that of the call. */
  beginCall(requestId: string): CallTrace;
  /** Begins to give the request back to the queue; the function ends it. */
  beginReEnqueue(): () => void;
  end(): void;
}

/** The span of one call to the target. */
export interface CallTrace {
  /** Carries the trace to the target. */
  readonly traceparent: string;
  /** `fault` is why there is no status. */
  end(ending: { readonly status: number | undefined; readonly fault?: string | undefined }): void;
}

/** Traces the requests of servers and the runs of workers. Costs next to nothing for those that are not sampled. */
export interface Tracing {
  /** Traces what arrives from now on, except where `isIgnored` says so of the request's URL. */
  watch(server: Server, isIgnored: (url: string) => boolean): void;
  /** The trace of a request; undefined when it is not traced. */
  of(request: IncomingMessage): RequestTrace | undefined;
  beginRun(run: TracedRun): RunTrace;
  /** Sends the spans that are left, as far as they go in `limitMs`. */
  close(limitMs: number): Promise<void>;
}

/** Headers by which legs carry a trace: where tracing is on, those of the client are taken away. */
export const traceHeaders: readonly string[] = ['traceparent', 'tracestate'];

/**
 * Starts tracing as the `OTEL_*` variables of the environment say; mistakes in them are warnings, as OpenTelemetry has
 * it. Undefined with `OTEL_SDK_DISABLED`. Nothing of OpenTelemetry is loaded before. `serviceName` is for spans whose
 * environment names none.
 */
export async function startTracing(
  environment: Readonly<Record<string, string | undefined>>,
  logger: Logger,
  serviceName = 'llm-d-coordinator',
): Promise<Tracing | undefined> {
  const { options, warnings } = readTracingOptions(environment, serviceName);
  for (const warning of warnings) logger.warn(warning);
  if (options.isDisabled) return undefined;
  const { OtelTracing } = await import('./otel-tracing.ts');
  return new OtelTracing(options, logger);
}
