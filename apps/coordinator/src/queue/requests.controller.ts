import { Controller, Delete, Get, Inject, Param, Req, Res } from '@nestjs/common';
import {
  CoordinatorError,
  type StoredRequests,
  toErrorResponse,
  type WholeAnswer,
} from '@llm-d/pipeline';
import { HttpSink } from '@llm-d/service';
import { type AsyncMetrics, type Logger, type Tracing } from '@llm-d/telemetry';
import { type FastifyReply, type FastifyRequest } from 'fastify';
import { logFailure } from '../log-failure.ts';
import { RequestLog } from '../request-log.ts';

/** What the routes of queued requests work with. */
export interface RequestsOptions {
  readonly requests: StoredRequests;
  readonly metrics: AsyncMetrics;
  readonly logger: Logger;
  /** Absent where requests are not traced. */
  readonly tracing: Tracing | undefined;
}

/** Injects `RequestsOptions`. */
export const requestsOptions = Symbol('requestsOptions');

/** Queued requests by id; there are such routes only where the step async-broker is configured. */
@Controller('/v1/requests')
export class RequestsController {
  constructor(@Inject(requestsOptions) private readonly options: RequestsOptions) {}

  @Get(':id')
  async fetch(
    @Param('id') id: string,
    @Req() request: FastifyRequest,
    @Res() reply: FastifyReply,
  ): Promise<void> {
    const { rawHeaders } = request.raw;
    await this.#answer(request, reply, () => this.options.requests.fetch({ id, rawHeaders }));
  }

  @Delete(':id')
  async cancel(
    @Param('id') id: string,
    @Req() request: FastifyRequest,
    @Res() reply: FastifyReply,
  ): Promise<void> {
    const { rawHeaders } = request.raw;
    await this.#answer(request, reply, () => this.options.requests.cancel({ id, rawHeaders }));
  }

  async #answer(
    request: FastifyRequest,
    reply: FastifyReply,
    ask: () => Promise<WholeAnswer>,
  ): Promise<void> {
    const { metrics, logger, tracing } = this.options;
    const trace = tracing?.of(request.raw);
    trace?.identify(request.id, request.routeOptions.url);
    let answer: WholeAnswer;
    try {
      answer = await ask();
    } catch (error) {
      if (!(error instanceof CoordinatorError)) throw error;
      trace?.fail(error);
      logFailure(error, new RequestLog(logger, request.id, trace?.ids));
      answer = toErrorResponse(error, request.id);
    }
    metrics.answered('', request.method, answer.status);
    const isSent = await send(answer, request, reply);
    // Who asks for the headers alone has not got the result.
    if (!isSent || request.method !== 'GET') return;
    await answer.onDelivered?.().catch((error: unknown) => {
      logger.warn({ err: error, request_id: request.id }, 'a delivery could not be noted');
    });
  }
}

/** An answer of the step async-broker that is always the same. */
export function modelsController(answer: WholeAnswer) {
  @Controller('/v1/models')
  class ModelsController {
    @Get()
    async list(@Req() request: FastifyRequest, @Res() reply: FastifyReply): Promise<void> {
      await send(answer, request, reply);
    }
  }
  return ModelsController;
}

/** Whether the client got all of it. */
async function send(
  { status, headers, body }: WholeAnswer,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<boolean> {
  reply.hijack();
  const sink = new HttpSink(reply.raw, request.id);
  sink.start(status, headers);
  if (body) sink.write(body);
  sink.end();
  return sink.sent();
}
