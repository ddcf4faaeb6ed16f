import { ConfigError, programText, relaxCollector } from '@llm-d/config';
import { RenderWorkers } from '@llm-d/render';
import { runService } from '@llm-d/service';
import { createLogger } from '@llm-d/telemetry';

import { createApp } from './app.ts';
import { loadShimConfig } from './config.ts';
import { helpText } from './help.ts';
import { loadModels } from './load-models.ts';
import { profileCommand } from './profile-command.ts';
import { RenderMetrics } from './render-metrics.ts';

const packageFile = new URL('../package.json', import.meta.url);

relaxCollector();
process.exit(await main(process.argv.slice(2)));

/** Runs a command, or the render shim until it is told to stop. Resolves to the exit code. */
async function main(argv: readonly string[]): Promise<number> {
  try {
    const text = programText(argv, { name: 'render-shim', packageFile, help: helpText });
    if (text !== undefined) {
      process.stdout.write(text);
      return 0;
    }
    if (argv[0] === 'profile') {
      return await profileCommand(argv.slice(1), (line) => process.stdout.write(`${line}\n`));
    }
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
  const metrics = new RenderMetrics(workers);
  const models = await loadModels(config.models, { workers, metrics, logger });
  try {
    const app = await createApp({ ...config, models, metrics, logger });
    logger.info({ node: process.version, models: models.cards }, 'starting');
    return await runService(app, { ...config, ...config.listen, logger });
  } finally {
    await models.close();
    await workers.close();
  }
}
