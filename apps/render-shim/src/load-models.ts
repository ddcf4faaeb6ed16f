import { ConfigError } from '@llm-d/config';
import { Renderer, type ProfileOptions, type RenderWorkers } from '@llm-d/render';
import { type Logger } from '@llm-d/telemetry';

import { EmbeddedBackend } from './embedded-backend.ts';
import { FallbackBackend } from './fallback-backend.ts';
import { type ModelBackend } from './model-backend.ts';
import { type ModelConfig, type UpstreamConfig } from './model-config.ts';
import { ModelTable } from './model-table.ts';
import { ProxyBackend } from './proxy-backend.ts';
import { type RenderMetrics } from './render-metrics.ts';

/** What models share. */
export interface ModelSurroundings {
  readonly workers: RenderWorkers;
  readonly metrics: RenderMetrics;
  readonly logger: Logger;
}

/** Loads all models, one after the other. Throws a ConfigError for a profile that cannot be loaded. */
export async function loadModels(
  configs: readonly ModelConfig[],
  surroundings: ModelSurroundings,
): Promise<ModelTable> {
  const backends: ModelBackend[] = [];
  for (const config of configs) backends.push(await load(config, surroundings));
  try {
    return new ModelTable(backends);
  } catch (cause) {
    throw new ConfigError([`models: ${reasonOf(cause)}`], { cause });
  }
}

async function load(config: ModelConfig, surroundings: ModelSurroundings): Promise<ModelBackend> {
  switch (config.mode) {
    case 'embedded':
      return loadEmbedded(config.profile, surroundings);
    case 'proxy':
      return ProxyBackend.start(config.upstream, surroundings.metrics);
    case 'fallback':
      return loadFallback(config.profile, config.upstream, surroundings);
  }
}

async function loadEmbedded(
  profile: ProfileOptions,
  { workers }: ModelSurroundings,
): Promise<ModelBackend> {
  try {
    return new EmbeddedBackend(await Renderer.load(profile, workers));
  } catch (cause) {
    throw new ConfigError([`profile: ${reasonOf(cause)}`], { cause });
  }
}

/** A profile that this process cannot render leaves everything to the upstreams. */
async function loadFallback(
  profile: ProfileOptions,
  upstream: UpstreamConfig,
  surroundings: ModelSurroundings,
): Promise<ModelBackend> {
  const { logger, metrics } = surroundings;
  try {
    const embedded = await loadEmbedded(profile, surroundings);
    const proxy = await ProxyBackend.start({ ...upstream, ids: embedded.ids }, metrics);
    return new FallbackBackend(embedded, proxy);
  } catch (cause) {
    if (!(cause instanceof ConfigError) || upstream.ids.length === 0) throw cause;
    logger.warn({ model: upstream.ids[0] }, `proxy only: ${cause.message}`);
    return ProxyBackend.start(upstream, metrics);
  }
}

function reasonOf(cause: unknown): string {
  return cause instanceof Error ? cause.message : String(cause);
}
