import { randomUUID } from 'node:crypto';
import { type ServerResponse } from 'node:http';
import { Controller, Inject, Post, Req, Res } from '@nestjs/common';
import { apiOfPath, apiPaths } from '@llm-d/gateway';
import { JsonDocument, JsonError, pathTo } from '@llm-d/json-document';
import {
  BadRequestError,
  CoordinatorError,
  errorEvent,
  ForwardedHeaders,
  type HeaderPolicy,
  InternalError,
  type Logger,
  type Pipeline,
  readUsage,
  RequestContext,
  type RequestObserver,
  type StoredRequests,
  toErrorResponse,
} from '@llm-d/pipeline';
import { HttpSink, KeepAliveSink } from '@llm-d/service';
import {
  type AsyncMetrics,
  type CoordinatorMetrics,
  type PipelineTrace,
  type TraceIds,
} from '@llm-d/telemetry';
import { type FastifyReply, type FastifyRequest } from 'fastify';
import { logFailure } from './log-failure.ts';
import { AnswerReceipt, type ReceiptOptions, serverTimingRequestHeader } from './answer-receipt.ts';
import { logAnswer, logArrival } from './request-lines.ts';
import { RequestLog } from './request-log.ts';
import { recordRequest, type RequestRecords } from './request-records.ts';
import { type RunningRequest, RunningRequests } from './running-requests.ts';
import { StepTrace } from './step-trace.ts';

/** What the inference routes work with. */
export interface CompletionsOptions extends RequestRecords {
  readonly pipeline: Pipeline;
  readonly headerPolicy: HeaderPolicy;
  /** For answers that are not streamed; 0 = no limit. */
  readonly writeTimeoutMs: number;
  /** For streamed answers that have not come yet; 0 = no comments. */
  readonly streamKeepAliveMs: number;
  readonly metrics: CoordinatorMetrics;
  /** Present where requests can be queued. */
  readonly async: AsyncOptions | undefined;
  /** What every client gets to know; one may ask for more. */
  readonly receipts: ReceiptOptions;
  /** `pipeline.wire.phase_header`. */
  readonly phaseHeader: string;
}

/** What is particular about requests that can be queued. */
export interface AsyncOptions {
  readonly requests: Pick<StoredRequests, 'modeOf'>;
  readonly metrics: AsyncMetrics;
}

/** Injects `CompletionsOptions`. */
export const completionsOptions = Symbol('completionsOptions');

/** Fields that steps act on: a second one could be read by a worker and not by us. */
const uniqueKeys: ReadonlySet<string> = new Set([
  ...['model', 'stream', 'stream_options', 'messages', 'prompt', 'token_ids', 'features', 'n'],
  ...['max_tokens', 'max_completion_tokens', 'min_tokens', 'sampling_params'],
  ...['input', 'max_output_tokens', 'store', 'previous_response_id', 'conversation', 'background'],
  ...['kv_transfer_params', 'ec_transfer_params', 'bootstrap_host', 'bootstrap_port'],
  ...['bootstrap_room', 'best_of', 'prompt_logprobs', 'logprobs', 'echo'],
]);

/** The inference routes: bytes in, one run of the pipeline, bytes out. */
@Controller()
export class CompletionsController {
  constructor(
    @Inject(completionsOptions) private readonly options: CompletionsOptions,
    private readonly runningRequests: RunningRequests,
  ) {}

  @Post(Object.values(apiPaths))
  async complete(@Req() request: FastifyRequest, @Res() reply: FastifyReply): Promise<void> {
    await this.#run(this.#start(request, reply));
  }

  /** Apart from the run, which may outlive the body and must not keep it. */
  #start(request: FastifyRequest, reply: FastifyReply): StartedRequest {
    const { metrics, async: queue } = this.options;
    const { raw: response } = reply;
    const arrivedAt = performance.now() - reply.elapsedTime;
    const bytes = request.body as Buffer;
    const trace = this.options.tracing?.of(request.raw);
    trace?.identify(request.id, request.routeOptions.url);
    const mode = queue?.requests.modeOf(request.raw.rawHeaders);
    const body = parse(bytes, mode === undefined ? 'BAD_REQUEST' : 'INVALID_REQUEST');
    request.body = undefined;
    const parseMs = performance.now() - arrivedAt;

    reply.hijack();
    const isStreaming = body.isTrue('stream');
    const { writeTimeoutMs, streamKeepAliveMs } = this.options;
    const running = this.runningRequests.add(
      response,
      // A held answer has a deadline of its own.
      isStreaming || mode === 'wait' ? 0 : writeTimeoutMs,
    );
    const sink =
      isStreaming && streamKeepAliveMs > 0
        ? new KeepAliveSink(response, request.id, streamKeepAliveMs)
        : new HttpSink(response, request.id);
    const { pipeline } = this.options;
    const pipelineTrace = trace?.beginPipeline(pipeline.steps.length);
    const ctx = toRequestContext(request, this.options, {
      body,
      arrivedAt,
      sink,
      signal: running.signal,
      pipelineTrace,
      trace: trace?.ids,
    });
    sink.extras = this.#receiptFor(request, ctx);
    const counted = metrics.requestParsed(ctx.model);
    logArrival(ctx.log, request.raw, {
      ...{ path: ctx.path, requestId: ctx.requestId, phaseHeader: this.options.phaseHeader },
      bodyBytes: bytes.length,
    });
    const requestBytes = bytes.length;
    const ids = trace?.ids;
    return {
      ctx,
      sink,
      response,
      running,
      counted,
      pipelineTrace,
      ids,
      mode,
      parseMs,
      requestBytes,
    };
  }

  async #run(started: StartedRequest): Promise<void> {
    const { metrics, pipeline, async: queue } = this.options;
    const { ctx, sink, response, running, counted, pipelineTrace, ids, mode } = started;
    let error: CoordinatorError | undefined;
    try {
      await pipeline.run(ctx);
      if (!sink.isStarted) throw new Error('no step answered the request');
    } catch (thrown) {
      error = thrown instanceof CoordinatorError ? thrown : new InternalError(thrown);
      answerError(error, ctx, sink, response);
    } finally {
      running.release();
    }
    pipelineTrace?.end(ctx, error);
    const { status, sentBytes: responseBytes } = sink;
    const { parseMs, requestBytes } = started;
    const usage = readUsage(ctx.answerTail.bytes);
    const end = { error, status, parseMs, requestBytes, responseBytes, usage };
    metrics.requestEnded(counted, ctx, end);
    if (mode !== undefined) queue?.metrics.answered(ctx.asyncMode ?? 'unknown', 'POST', status);
    recordRequest(this.options, ctx, end, ids);
    logAnswer(ctx.log, sink, ctx.requestId);
  }

  #receiptFor({ headers }: FastifyRequest, ctx: RequestContext): AnswerReceipt | undefined {
    const { hasReceipt, hasServerTiming } = this.options.receipts;
    const isAsked = headers[serverTimingRequestHeader] === '1';
    if (!hasReceipt && !hasServerTiming && !isAsked) return undefined;
    return new AnswerReceipt(ctx, { hasReceipt, hasServerTiming: hasServerTiming || isAsked });
  }
}

/** A request that was understood, and what the end of it is told with. */
interface StartedRequest {
  readonly ctx: RequestContext;
  readonly sink: HttpSink;
  readonly response: ServerResponse;
  readonly running: RunningRequest;
  readonly counted: ReturnType<CoordinatorMetrics['requestParsed']>;
  readonly pipelineTrace: PipelineTrace | undefined;
  readonly ids: TraceIds | undefined;
  /** Of a request that may be queued. */
  readonly mode: string | undefined;
  readonly parseMs: number;
  readonly requestBytes: number;
}

function parse(bytes: Buffer, code: 'BAD_REQUEST' | 'INVALID_REQUEST'): JsonDocument {
  try {
    return JsonDocument.parse(bytes, { uniqueKeys, loneSurrogates: 'reject' });
  } catch (cause) {
    if (!(cause instanceof JsonError)) throw cause;
    // Other faults leave nothing to walk along.
    const param = cause.reason === 'lone-surrogate' ? pathTo(bytes, cause.offset) : '';
    const text = `the request body: ${param && `${param}: `}${cause.message}`;
    const message = bytes.length > 0 ? text : 'the request body is empty';
    throw new BadRequestError(message, { cause, code, ...(param && { param }) });
  }
}

function toRequestContext(
  request: FastifyRequest,
  { headerPolicy, logger, metrics }: CompletionsOptions,
  own: {
    body: JsonDocument;
    arrivedAt: number;
    sink: HttpSink;
    signal: AbortSignal;
    pipelineTrace: RequestObserver | undefined;
    trace: TraceIds | undefined;
  },
): RequestContext {
  // The route's own spelling: a client may add slashes.
  const path = request.routeOptions.url ?? '';
  const api = apiOfPath(path);
  if (!api) throw new Error(`${path} is no inference path`);
  const log = new RequestLog(logger, request.id, own.trace);
  return new RequestContext({
    ...own,
    requestId: request.id,
    revisionDecisionId: randomUUID(),
    path,
    api,
    rawHeaders: request.raw.rawHeaders,
    place: request.ticket,
    headers: ForwardedHeaders.from(request.raw.rawHeaders, headerPolicy),
    queueMs: request.ticket?.queueMs,
    log,
    observers: observersFor(metrics, log, own.pipelineTrace),
  });
}

function observersFor(
  metrics: CoordinatorMetrics,
  log: Logger,
  pipelineTrace: RequestObserver | undefined,
): RequestObserver[] {
  const observers: RequestObserver[] = [metrics];
  if (pipelineTrace) observers.push(pipelineTrace);
  if (log.isLevelEnabled?.('trace')) observers.push(new StepTrace(log));
  return observers;
}

/** Tells the client what went wrong, as far as it can still be told. */
function answerError(
  error: CoordinatorError,
  ctx: RequestContext,
  sink: HttpSink,
  response: ServerResponse,
): void {
  logFailure(error, ctx.log);
  if (response.destroyed || response.writableEnded) return;
  if (sink.keepAlive === 'begun') {
    sink.write(errorEvent(error, ctx.requestId));
    sink.end(true);
    return;
  }
  if (sink.isStarted) {
    sink.abort();
    return;
  }
  const answer = toErrorResponse(error, ctx.requestId);
  sink.start(answer.status, answer.headers);
  sink.write(answer.body);
  sink.end();
}
