import { Controller, Get, Headers, Res } from '@nestjs/common';
import { type FastifyReply } from 'fastify';
import { BrokerMetrics } from './broker-metrics.ts';

@Controller()
export class MetricsController {
  readonly #metrics: BrokerMetrics;

  constructor(metrics: BrokerMetrics) {
    this.#metrics = metrics;
  }

  @Get('/metrics')
  async metrics(
    @Headers('accept') accept: string | undefined,
    @Res() reply: FastifyReply,
  ): Promise<void> {
    const { contentType, body } = await this.#metrics.text(accept);
    await reply.type(contentType).send(body);
  }
}
