import { randomUUID } from 'node:crypto';
import { type ServerResponse } from 'node:http';
import { Controller, Inject, Post, Req, Res } from '@nestjs/common';
import { apiOfPath, apiPaths } from '@llm-d/gateway';
import { JsonDocument, JsonError } from '@llm-d/json-document';
import {
  AnswerTimeoutError,
  BadRequestError,
  ClientGoneError,
  CoordinatorError,
  ForwardedHeaders,
  type HeaderPolicy,
  InternalError,
  type Pipeline,
  RequestContext,
  ResponseStartedError,
  toErrorResponse,
} from '@llm-d/pipeline';
import { HttpSink, Lifecycle } from '@llm-d/service';
import { type Logger } from '@llm-d/telemetry';
import { type FastifyReply, type FastifyRequest } from 'fastify';
import { type RecentRequests } from './recent-requests.ts';
import { RequestLog } from './request-log.ts';
import { summarize, timelineOf } from './request-summary.ts';
import { ShuttingDownError } from './shutting-down-error.ts';

/** What the inference routes work with. */
export interface CompletionsOptions {
  readonly pipeline: Pipeline;
  readonly headerPolicy: HeaderPolicy;
  /** For answers that are not streamed; 0 = no limit. */
  readonly writeTimeoutMs: number;
  readonly logger: Logger;
  /** Absent without a debug listener. */
  readonly recent?: RecentRequests | undefined;
}

/** Injects `CompletionsOptions`. */
export const completionsOptions = Symbol('completionsOptions');

/** Fields that steps act on: a second one could be read by a worker and not by us. */
const uniqueKeys: ReadonlySet<string> = new Set([
  ...['model', 'stream', 'stream_options', 'messages', 'prompt', 'token_ids', 'features', 'n'],
  ...['max_tokens', 'max_completion_tokens', 'min_tokens', 'sampling_params'],
  ...['kv_transfer_params', 'ec_transfer_params', 'bootstrap_host', 'bootstrap_port'],
]);

/** The inference routes: bytes in, one run of the pipeline, bytes out. */
@Controller()
export class CompletionsController {
  readonly #running = new Set<AbortController>();

  constructor(
    @Inject(completionsOptions) private readonly options: CompletionsOptions,
    lifecycle: Lifecycle,
  ) {
    lifecycle.cut.addEventListener('abort', () => {
      for (const running of this.#running) running.abort(new ShuttingDownError());
    });
  }

  @Post(Object.values(apiPaths))
  async complete(@Req() request: FastifyRequest, @Res() reply: FastifyReply): Promise<void> {
    const { raw: response } = reply;
    const arrivedAt = performance.now() - reply.elapsedTime;
    const bytes = request.body as Buffer;
    const body = parse(bytes);
    const parseMs = performance.now() - arrivedAt;

    reply.hijack();
    const running = new AbortController();
    const sink = new HttpSink(response, request.id);
    const ctx = toRequestContext(request, this.options, {
      body,
      arrivedAt,
      sink,
      signal: running.signal,
    });
    const release = this.watch(running, response, ctx.isStreaming);
    let error: CoordinatorError | undefined;
    try {
      await this.options.pipeline.run(ctx);
      if (!sink.isStarted) throw new Error('no step answered the request');
    } catch (thrown) {
      error = thrown instanceof CoordinatorError ? thrown : new InternalError(thrown);
      answerError(error, ctx, sink, response);
    } finally {
      release();
    }
    const { status, sentBytes: responseBytes } = sink;
    this.record(ctx, { error, status, parseMs, requestBytes: bytes.length, responseBytes });
  }

  /** Ends the request when the client leaves, the answer takes too long or the process has to go. */
  private watch(running: AbortController, response: ServerResponse, isStreaming: boolean) {
    const onClose = (): void => {
      if (!response.writableFinished) running.abort(new ClientGoneError());
    };
    if (response.destroyed) onClose();
    response.once('close', onClose);
    this.#running.add(running);
    const { writeTimeoutMs } = this.options;
    const timer =
      isStreaming || writeTimeoutMs === 0
        ? undefined
        : setTimeout(() => {
            running.abort(new AnswerTimeoutError(writeTimeoutMs));
          }, writeTimeoutMs);
    return (): void => {
      clearTimeout(timer);
      this.#running.delete(running);
      response.off('close', onClose);
    };
  }

  private record(ctx: RequestContext, end: Parameters<typeof summarize>[1]): void {
    const { logger, recent } = this.options;
    const isLogged = logger.isLevelEnabled('info');
    if (!isLogged && !recent) return;
    const summary = summarize(ctx, end);
    recent?.add(ctx.requestId, { ...summary, timeline: timelineOf(ctx.timeline) });
    if (isLogged) logger.info(summary, 'request');
  }
}

function parse(bytes: Buffer): JsonDocument {
  try {
    return JsonDocument.parse(bytes, { uniqueKeys, loneSurrogates: 'reject' });
  } catch (cause) {
    if (!(cause instanceof JsonError)) throw cause;
    throw new BadRequestError(`the request body: ${cause.message}`, { cause });
  }
}

function toRequestContext(
  request: FastifyRequest,
  { headerPolicy, logger }: CompletionsOptions,
  own: { body: JsonDocument; arrivedAt: number; sink: HttpSink; signal: AbortSignal },
): RequestContext {
  // The route's own spelling: a client may add slashes.
  const path = request.routeOptions.url ?? '';
  const api = apiOfPath(path);
  if (!api) throw new Error(`${path} is no inference path`);
  return new RequestContext({
    ...own,
    requestId: request.id,
    revisionDecisionId: randomUUID(),
    path,
    api,
    headers: ForwardedHeaders.from(request.raw.rawHeaders, headerPolicy),
    log: new RequestLog(logger, request.id),
  });
}

/** Tells the client what went wrong, as far as it can still be told. */
function answerError(
  error: CoordinatorError,
  ctx: RequestContext,
  sink: HttpSink,
  response: ServerResponse,
): void {
  logFailure(error, ctx);
  if (response.destroyed || response.writableEnded) return;
  if (sink.isStarted) {
    sink.abort();
    return;
  }
  const answer = toErrorResponse(error, ctx.requestId);
  sink.start(answer.status, answer.headers);
  sink.write(answer.body);
  sink.end();
}

/** A fault of ours comes with its stack; what an upstream did wrong needs none. */
function logFailure(error: CoordinatorError, ctx: RequestContext): void {
  const { code, step, status, cause } = error;
  const isBroken = error instanceof ResponseStartedError && status === 0;
  if (status < 500 && !isBroken) return;
  const details =
    error instanceof InternalError || !(cause instanceof Error)
      ? { err: cause }
      : { cause: cause.message };
  ctx.log.error({ code, step, ...details }, error.message);
}
