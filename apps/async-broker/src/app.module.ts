import { type DynamicModule, Module } from '@nestjs/common';
import { BrokerMetrics } from './broker-metrics.ts';
import { MetricsController } from './metrics.controller.ts';

/** The HTTP side of the processor: metrics; probes come with the service. */
@Module({})
export class AppModule {
  static register(metrics: BrokerMetrics): DynamicModule {
    return {
      module: AppModule,
      controllers: [MetricsController],
      providers: [{ provide: BrokerMetrics, useValue: metrics }],
    };
  }
}
