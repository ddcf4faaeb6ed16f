import { ConfigError } from '@llm-d/config';
import { Renderer } from '@llm-d/render';
import { runService } from '@llm-d/service';
import { createLogger } from '@llm-d/telemetry';

import { createApp } from './app.ts';
import { loadShimConfig, type ShimConfig } from './config.ts';

process.exit(await main(process.argv.slice(2)));

/** Starts the render shim and runs it until it is told to stop. Resolves to the exit code. */
async function main(argv: readonly string[]): Promise<number> {
  try {
    const config = loadShimConfig(argv, process.env);
    const renderer = await loadRenderer(config);
    try {
      return await run(config, renderer);
    } finally {
      await renderer.close();
    }
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    for (const problem of error.problems) process.stderr.write(`render-shim: ${problem}\n`);
    return 1;
  }
}

/** A profile that cannot be loaded is a mistake of the configuration. */
async function loadRenderer({ model }: ShimConfig): Promise<Renderer> {
  try {
    return await Renderer.load(model);
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new ConfigError([`profile: ${reason}`], { cause });
  }
}

async function run(config: ShimConfig, renderer: Renderer): Promise<number> {
  const logger = createLogger({ service: 'render-shim', level: config.logLevel });
  const app = await createApp({ ...config, renderer, logger });
  logger.info(
    {
      node: process.version,
      models: renderer.modelIds,
      root: renderer.rootName,
      max_model_len: renderer.maxModelLen,
    },
    'starting',
  );
  return runService(app, { ...config, ...config.listen, logger });
}
