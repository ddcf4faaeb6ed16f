import { createService, type Service } from '@llm-d/service';
import { type Logger } from '@llm-d/telemetry';

import { AppModule } from './app.module.ts';
import { requireBearer } from './bearer-auth.ts';
import { type ModelTable } from './model-table.ts';
import { RenderErrorFilter } from './render-error.filter.ts';
import { type RenderMetrics } from './render-metrics.ts';
import { behaveLikeVllm, UnknownPath } from './vllm-http.ts';

/** What a render shim is made of. */
export interface AppOptions {
  readonly models: ModelTable;
  readonly metrics: RenderMetrics;
  readonly logger: Logger;
  /** A longer request body is refused with 413. */
  readonly maxBodyBytes: number;
  readonly readTimeoutMs?: number;
  /** From the whole request to the start of its answer; 504 past it. Default half a minute. */
  readonly requestTimeoutMs?: number;
  /** The same for requests with images, video or audio. Default a minute. */
  readonly mediaTimeoutMs?: number;
  /** Name in lower case of the header whose values tell tenants apart. */
  readonly tenantHeader?: string | undefined;
  /** Refuses other content types than JSON with 415 instead of vLLM's 400. */
  readonly strictHttp?: boolean;
  /** One of them is asked for below `/v1`; empty or absent, nothing is. */
  readonly bearerTokens?: readonly string[];
}

/** Builds a render shim that does not listen yet. */
export async function createApp(options: AppOptions): Promise<Service> {
  const { models, metrics, logger, maxBodyBytes, readTimeoutMs } = options;
  const service = await createService({
    module: AppModule.register(models, metrics, {
      requestTimeoutMs: options.requestTimeoutMs ?? 30_000,
      mediaTimeoutMs: options.mediaTimeoutMs ?? 60_000,
      tenantHeader: options.tenantHeader,
      strictHttp: options.strictHttp ?? false,
    }),
    logger,
    bodyLimitBytes: maxBodyBytes,
    unknownPaths: UnknownPath,
    ...(readTimeoutMs !== undefined && { readTimeoutMs }),
  });
  service.useGlobalFilters(new RenderErrorFilter(logger));
  const fastify = service.getHttpAdapter().getInstance();
  requireBearer(fastify, options.bearerTokens ?? []);
  behaveLikeVllm(fastify);
  fastify.addHook('onRequest', (request, reply, done) => {
    const isProbe = request.routeOptions.url === '/readyz';
    if (isProbe && !models.isReady) void reply.code(503).send('a model cannot be served');
    else done();
  });
  return service;
}
