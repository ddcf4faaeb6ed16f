import { type Renderer } from '@llm-d/render';
import { createService, type Service } from '@llm-d/service';
import { type Logger } from '@llm-d/telemetry';

import { AppModule } from './app.module.ts';
import { RenderErrorFilter } from './render-error.filter.ts';

/** What a render shim is made of. */
export interface AppOptions {
  readonly renderer: Renderer;
  readonly logger: Logger;
  /** A longer request body is refused with 413. */
  readonly maxBodyBytes: number;
  readonly readTimeoutMs?: number;
}

/** Builds a render shim that does not listen yet. */
export async function createApp(options: AppOptions): Promise<Service> {
  const { renderer, logger, maxBodyBytes, readTimeoutMs } = options;
  const service = await createService({
    module: AppModule.register(renderer),
    logger,
    bodyLimitBytes: maxBodyBytes,
    ...(readTimeoutMs !== undefined && { readTimeoutMs }),
  });
  service.useGlobalFilters(new RenderErrorFilter(logger));
  return service;
}
