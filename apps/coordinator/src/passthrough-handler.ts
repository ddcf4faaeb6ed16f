import { randomUUID } from 'node:crypto';
import {
  CoordinatorError,
  ForwardedHeaders,
  type HeaderPolicy,
  InternalError,
} from '@llm-d/pipeline';
import { HttpSink, type UnknownPathHandler, type UnreadBody } from '@llm-d/service';
import { type Passthrough } from '@llm-d/steps';
import { type FastifyReply, type FastifyRequest } from 'fastify';
import { logFailure } from './log-failure.ts';
import { RequestLog } from './request-log.ts';
import { recordRequest, type RequestRecords } from './request-records.ts';
import { type RunningRequests } from './running-requests.ts';

/** What the passthrough works with. */
export interface PassthroughHandlerOptions extends RequestRecords {
  readonly passthrough: Passthrough;
  /** Lets content type and coding of the client's body pass. */
  readonly headerPolicy: HeaderPolicy;
}

/** Paths of other APIs: bytes in, one call to the gateway, bytes out. */
export class PassthroughHandler implements UnknownPathHandler {
  readonly #options: PassthroughHandlerOptions;
  readonly #runningRequests: RunningRequests;

  constructor(options: PassthroughHandlerOptions, runningRequests: RunningRequests) {
    this.#options = options;
    this.#runningRequests = runningRequests;
  }

  async serve(
    request: FastifyRequest,
    reply: FastifyReply,
    body: UnreadBody | undefined,
  ): Promise<void> {
    const { passthrough, headerPolicy, logger } = this.#options;
    const { raw } = request;
    const { id: requestId, url: target } = request;
    const arrivedAt = performance.now() - reply.elapsedTime;
    const trace = this.#options.tracing?.of(raw);
    trace?.identify(requestId);
    // Whether an answer is a stream cannot be known before it comes: no limit for the whole of it.
    const running = this.#runningRequests.add(reply.raw, 0);
    const sink = new HttpSink(reply.raw, requestId);
    let error: CoordinatorError | undefined;
    try {
      await passthrough.serve({
        requestId,
        revisionDecisionId: randomUUID(),
        signal: running.signal,
        sink,
        method: request.method,
        target,
        headers: ForwardedHeaders.from(raw.rawHeaders, headerPolicy),
        arrivedAt,
        observer: trace?.observer,
        contentTypes: raw.headersDistinct['content-type'] ?? [],
        contentEncodings: raw.headersDistinct['content-encoding'] ?? [],
        body: body && {
          byteLength: body.byteLength,
          read: () => body.read(),
          stream: () => body.stream(running.abort),
        },
      });
    } catch (thrown) {
      error = thrown instanceof CoordinatorError ? thrown : new InternalError(thrown);
      trace?.fail(error);
    } finally {
      running.release();
    }
    const { sentBytes: responseBytes, isStarted } = sink;
    const ctx = {
      requestId,
      path: target.split('?', 1)[0] ?? '',
      model: '',
      isStreaming: false,
      timeline: [],
      queueMs: request.ticket?.queueMs ?? 0,
      promptTokens: undefined,
      media: [],
      elapsedMs: () => performance.now() - arrivedAt,
    };
    const status = isStarted ? sink.status : (error?.status ?? 0);
    const requestBytes = body?.receivedBytes ?? 0;
    const end = { error, status, parseMs: 0, requestBytes, responseBytes };
    recordRequest(this.#options, ctx, end, trace?.ids);
    if (!error || error.code === 'CLIENT_GONE') return;
    if (!isStarted) throw error;
    logFailure(error, new RequestLog(logger, requestId, trace?.ids));
  }
}
