import { createService, type Service } from '@llm-d/service';
import { type Logger } from '@llm-d/telemetry';

import { AppModule } from './app.module.ts';
import { type ModelTable } from './model-table.ts';
import { RenderErrorFilter } from './render-error.filter.ts';
import { RenderMetrics } from './render-metrics.ts';
import { behaveLikeVllm, UnknownPath } from './vllm-http.ts';

/** What a render shim is made of. */
export interface AppOptions {
  readonly models: ModelTable;
  readonly logger: Logger;
  /** A longer request body is refused with 413. */
  readonly maxBodyBytes: number;
  readonly readTimeoutMs?: number;
}

/** Builds a render shim that does not listen yet. */
export async function createApp(options: AppOptions): Promise<Service> {
  const { models, logger, maxBodyBytes, readTimeoutMs } = options;
  const service = await createService({
    module: AppModule.register(models, new RenderMetrics()),
    logger,
    bodyLimitBytes: maxBodyBytes,
    unknownPaths: UnknownPath,
    ...(readTimeoutMs !== undefined && { readTimeoutMs }),
  });
  service.useGlobalFilters(new RenderErrorFilter(logger));
  behaveLikeVllm(service.getHttpAdapter().getInstance());
  return service;
}
