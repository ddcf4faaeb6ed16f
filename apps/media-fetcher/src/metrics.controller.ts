import { Controller, Get, Res } from '@nestjs/common';
import { type FastifyReply } from 'fastify';
import { FetcherMetrics } from './fetcher-metrics.ts';

/** `GET /metrics`, in the text format of Prometheus. */
@Controller()
export class MetricsController {
  constructor(private readonly metrics: FetcherMetrics) {}

  @Get('/metrics')
  async metricsText(@Res() reply: FastifyReply): Promise<void> {
    const { registry } = this.metrics;
    await reply.header('content-type', registry.contentType).send(await registry.metrics());
  }
}
