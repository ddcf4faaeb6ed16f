import { type ModelConfig } from './model-config.ts';
import { RenderWorkers, type WorkerLimits } from '@llm-d/render';
import { type RunningService, startService } from '@llm-d/service';
import { createLogger } from '@llm-d/telemetry';

import { createApp } from './app.ts';
import { loadModels } from './load-models.ts';
import { RenderMetrics } from './render-metrics.ts';

/** A shim that listens on a port of its own. */
export interface RunningShim {
  readonly url: string;
  readonly workers: RenderWorkers;
  /** What was logged so far, a line each. */
  readonly log: readonly string[];
  stop(): Promise<void>;
}

/** Starts a shim with these models; for tests. */
export async function startShim(
  configs: readonly ModelConfig[],
  options: {
    readonly maxBodyBytes?: number;
    readonly workers?: WorkerLimits;
    readonly bearerTokens?: readonly string[];
    readonly mediaTimeoutMs?: number;
    readonly tenantHeader?: string;
    readonly strictHttp?: boolean;
  } = {},
): Promise<RunningShim> {
  const log: string[] = [];
  const logger = createLogger({
    service: 'test',
    level: 3,
    destination: {
      write: (line: string) => {
        log.push(line);
      },
    },
  });
  const workers = new RenderWorkers(options.workers);
  const metrics = new RenderMetrics(workers);
  const models = await loadModels(configs, { workers, metrics, logger });
  const app = await createApp({
    models,
    metrics,
    logger,
    bearerTokens: options.bearerTokens ?? [],
    tenantHeader: options.tenantHeader,
    strictHttp: options.strictHttp ?? false,
    mediaTimeoutMs: options.mediaTimeoutMs ?? 60_000,
    maxBodyBytes: options.maxBodyBytes ?? 64 << 20,
  });
  const running: RunningService = await startService(app, {
    logger,
    host: '127.0.0.1',
    port: 0,
    shutdownTimeoutMs: 1_000,
  });
  return {
    url: running.url,
    workers,
    log,
    stop: async () => {
      await running.stop();
      await models.close();
      await workers.close();
    },
  };
}
