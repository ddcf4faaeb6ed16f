import { ConfigError } from '@llm-d/config';
import { RenderWorkers } from '@llm-d/render';
import { runService } from '@llm-d/service';
import { createLogger } from '@llm-d/telemetry';

import { createApp } from './app.ts';
import { loadShimConfig } from './config.ts';
import { loadModels } from './load-models.ts';

process.exit(await main(process.argv.slice(2)));

/** Starts the render shim and runs it until it is told to stop. Resolves to the exit code. */
async function main(argv: readonly string[]): Promise<number> {
  try {
    return await serve(argv);
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    for (const problem of error.problems) process.stderr.write(`render-shim: ${problem}\n`);
    return 1;
  }
}

async function serve(argv: readonly string[]): Promise<number> {
  const config = loadShimConfig(argv, process.env);
  const logger = createLogger({ service: 'render-shim', level: config.logLevel });
  const workers = new RenderWorkers(config.workers);
  const models = await loadModels(config.models, workers, logger);
  try {
    const app = await createApp({ ...config, models, workers, logger });
    logger.info({ node: process.version, models: models.cards }, 'starting');
    return await runService(app, { ...config, ...config.listen, logger });
  } finally {
    await models.close();
    await workers.close();
  }
}
