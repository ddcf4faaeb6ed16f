import { type IncomingMessage, STATUS_CODES } from 'node:http';
import { type ArgumentsHost, Catch, type ExceptionFilter, HttpException } from '@nestjs/common';
import { requestIdHeader } from '@llm-d/gateway';
import {
  CoordinatorError,
  type ErrorResponse,
  InternalError,
  toErrorResponse,
} from '@llm-d/pipeline';
import { type Logger } from '@llm-d/telemetry';
import { type FastifyReply, type FastifyRequest } from 'fastify';
import { type EdgeObserver } from './edge-observer.ts';
import { type PendingBodies } from './upload.ts';
import { RequestError } from './request-error.ts';
import { sendAndClose } from './send-and-close.ts';

/** What log lines about a request hold besides its id. */
export type LogFields = (request: IncomingMessage) => object | undefined;

/** Writes an error for the client. */
export type ErrorWriter = (error: CoordinatorError, requestId: string) => ErrorResponse;

/** Who hears of errors besides the client, and what the client gets; each may be absent. */
export interface Watchers {
  readonly observer?: EdgeObserver | undefined;
  readonly logFields?: LogFields | undefined;
  /** OpenAI's error object when absent. */
  readonly errorResponse?: ErrorWriter | undefined;
}

/** The one place that turns an exception at the edge into an OpenAI-shaped answer. */
@Catch()
export class ErrorFilter implements ExceptionFilter {
  readonly #logger: Logger;
  readonly #lingerBytes: number;
  readonly #pending: PendingBodies;
  readonly #observer: EdgeObserver | undefined;
  readonly #logFields: LogFields;
  readonly #errorResponse: ErrorWriter;

  constructor(
    logger: Logger,
    lingerBytes: number,
    pending: PendingBodies,
    { observer, logFields = () => undefined, errorResponse = toErrorResponse }: Watchers = {},
  ) {
    this.#logger = logger;
    this.#lingerBytes = lingerBytes;
    this.#pending = pending;
    this.#observer = observer;
    this.#logFields = logFields;
    this.#errorResponse = errorResponse;
  }

  catch(error: unknown, host: ArgumentsHost): void {
    const http = host.switchToHttp();
    this.answer(error, http.getRequest<FastifyRequest>(), http.getResponse<FastifyReply>());
  }

  /** Writes the answer, or cuts a response that has begun: a broken one must not look complete. */
  answer(thrown: unknown, request: FastifyRequest, reply: FastifyReply): void {
    const error = toClientError(thrown);
    const { status, code, message } = error;
    const ids = { request_id: request.id, ...this.#logFields(request.raw) };
    if (status >= 500) this.#logger.error({ ...ids, code, err: thrown }, 'request failed');
    else this.#logger.info({ ...ids, status, code, error: message }, 'request refused');
    const response = reply.raw;
    const isOpen = !response.destroyed && !response.writableEnded;
    const answer =
      isOpen && !response.headersSent ? this.#errorResponse(error, request.id) : undefined;
    this.#observer?.refused(request, {
      error,
      requestBytes: readBytes(request, error),
      responseBytes: answer?.body.length ?? 0,
      durationMs: reply.elapsedTime,
    });
    if (!answer) {
      if (isOpen) response.destroy();
      return;
    }
    reply.hijack();
    const isSending = status !== 408 && code !== 'INVALID_HTTP';
    sendAndClose(
      request.raw,
      response,
      { ...answer, headers: [...answer.headers, requestIdHeader, request.id] },
      isSending ? this.#lingerBytes : 0,
      this.#pending,
    );
  }
}

/** What is known of the body: all of it, or how far a reader came. */
function readBytes(request: FastifyRequest, error: CoordinatorError): number {
  if (Buffer.isBuffer(request.body)) return request.body.length;
  return error instanceof RequestError ? error.receivedBytes : 0;
}

/** Only texts written for clients leave the process; a framework's own may repeat the URL. */
function toClientError(thrown: unknown): CoordinatorError {
  if (thrown instanceof CoordinatorError) return thrown;
  const status = thrown instanceof HttpException ? thrown.getStatus() : 500;
  const text = status === 500 ? undefined : STATUS_CODES[status]?.toLowerCase();
  return text === undefined
    ? new InternalError(thrown)
    : new RequestError(status, text.toUpperCase().replaceAll(/[^A-Z]+/g, '_'), text);
}
