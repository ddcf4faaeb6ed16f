import { Module, type DynamicModule } from '@nestjs/common';

import { ModelTable } from './model-table.ts';
import { RenderMetrics } from './render-metrics.ts';
import { type EdgeSettings, edgeSettings, RenderController } from './render.controller.ts';
import { UnknownPath } from './vllm-http.ts';

/** Wires the controller to the models. */
@Module({})
export class AppModule {
  static register(
    models: ModelTable,
    metrics: RenderMetrics,
    settings: EdgeSettings,
  ): DynamicModule {
    return {
      module: AppModule,
      controllers: [RenderController],
      providers: [
        UnknownPath,
        { provide: ModelTable, useValue: models },
        { provide: RenderMetrics, useValue: metrics },
        { provide: edgeSettings, useValue: settings },
      ],
    };
  }
}
