import { Catch, type ArgumentsHost, type ExceptionFilter } from '@nestjs/common';
import { RenderError } from '@llm-d/render';
import { type Logger } from '@llm-d/telemetry';
import { type FastifyReply, type FastifyRequest } from 'fastify';

/** Answers a refused rendering with vLLM's error object, so that callers see what vLLM would say. */
@Catch(RenderError)
export class RenderErrorFilter implements ExceptionFilter<RenderError> {
  constructor(private readonly logger: Logger) {}

  async catch(error: RenderError, host: ArgumentsHost): Promise<void> {
    const http = host.switchToHttp();
    const reply = http.getResponse<FastifyReply>();
    const { status: code, message, type, param } = error;
    // What we cannot do concerns the operator; what the client got wrong may repeat its prompt.
    if (code >= 500) {
      this.logger.warn({ request_id: http.getRequest<FastifyRequest>().id, type, param }, message);
    }
    if (code === 503) void reply.header('retry-after', '1');
    await reply.code(code).send({ error: { message, type, param, code } });
  }
}
