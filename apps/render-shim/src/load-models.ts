import { ConfigError } from '@llm-d/config';
import { Renderer, type RenderWorkers } from '@llm-d/render';

import { type Logger } from '@llm-d/telemetry';

import { EmbeddedBackend } from './embedded-backend.ts';
import { type ModelBackend } from './model-backend.ts';
import { type ModelConfig } from './model-config.ts';
import { ModelTable } from './model-table.ts';

/** Loads all models, one after the other. A profile that cannot be loaded is a mistake of the configuration. */
export async function loadModels(
  configs: readonly ModelConfig[],
  workers: RenderWorkers,
  logger: Logger,
): Promise<ModelTable> {
  const backends: ModelBackend[] = [];
  for (const config of configs) backends.push(await load(config, workers, logger));
  try {
    return new ModelTable(backends);
  } catch (cause) {
    throw new ConfigError([`models: ${reasonOf(cause)}`], { cause });
  }
}

async function load(
  config: ModelConfig,
  workers: RenderWorkers,
  _logger: Logger,
): Promise<ModelBackend> {
  if (config.mode !== 'embedded') throw new ConfigError(['models: not built']);
  try {
    return new EmbeddedBackend(await Renderer.load(config.profile, workers));
  } catch (cause) {
    throw new ConfigError([`profile: ${reasonOf(cause)}`], { cause });
  }
}

function reasonOf(cause: unknown): string {
  return cause instanceof Error ? cause.message : String(cause);
}
