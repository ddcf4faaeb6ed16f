import { type IncomingMessage, STATUS_CODES } from 'node:http';
import { type ArgumentsHost, Catch, type ExceptionFilter, HttpException } from '@nestjs/common';
import { requestIdHeader } from '@llm-d/gateway';
import { CoordinatorError, InternalError, toErrorResponse } from '@llm-d/pipeline';
import { type Logger } from '@llm-d/telemetry';
import { type FastifyReply, type FastifyRequest } from 'fastify';
import { type PendingBodies } from './upload.ts';
import { RequestError } from './request-error.ts';
import { sendAndClose } from './send-and-close.ts';

/** What log lines about a request hold besides its id. */
export type LogFields = (request: IncomingMessage) => object | undefined;

/** The one place that turns an exception at the edge into an OpenAI-shaped answer. */
@Catch()
export class ErrorFilter implements ExceptionFilter {
  readonly #logger: Logger;
  readonly #lingerBytes: number;
  readonly #pending: PendingBodies;
  readonly #logFields: LogFields;

  constructor(
    logger: Logger,
    lingerBytes: number,
    pending: PendingBodies,
    logFields: LogFields = () => undefined,
  ) {
    this.#logger = logger;
    this.#lingerBytes = lingerBytes;
    this.#pending = pending;
    this.#logFields = logFields;
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
    if (response.destroyed || response.writableEnded) return;
    if (response.headersSent) {
      response.destroy();
      return;
    }
    reply.hijack();
    const answer = toErrorResponse(error, request.id);
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

/** Only texts written for clients leave the process; a framework's own may repeat the URL. */
function toClientError(thrown: unknown): CoordinatorError {
  if (thrown instanceof CoordinatorError) return thrown;
  const status = thrown instanceof HttpException ? thrown.getStatus() : 500;
  const text = status === 500 ? undefined : STATUS_CODES[status]?.toLowerCase();
  return text === undefined
    ? new InternalError(thrown)
    : new RequestError(status, text.toUpperCase().replaceAll(/[^A-Z]+/g, '_'), text);
}
