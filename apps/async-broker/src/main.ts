import { ConfigError, programText } from '@llm-d/config';
import { runService } from '@llm-d/service';
import { createLogger, type LogLevel, startTracing } from '@llm-d/telemetry';
import { createApp } from './app.ts';
import { helpText } from './help.ts';
import { loadBrokerConfig } from './load-config.ts';

/** For the last spans. */
const flushMs = 2_000;

const packageFile = new URL('../package.json', import.meta.url);

process.exit(await main(process.argv.slice(2)));

/** Starts the async broker and runs it until it is told to stop. Resolves to the exit code. */
async function main(argv: readonly string[]): Promise<number> {
  try {
    const text = programText(argv, { name: 'async-broker', packageFile, help: helpText });
    if (text !== undefined) {
      process.stdout.write(text);
      return 0;
    }
    const config = loadBrokerConfig(argv, process.env);
    const level = config.log_level as LogLevel;
    const logger = createLogger({ service: 'async-broker', level });
    const tracing = config.tracing
      ? await startTracing(process.env, logger, 'llm-d-async-broker')
      : undefined;
    const app = await createApp(config, logger, tracing);
    logger.info({ node: process.version, lanes: config.lanes.map(({ name }) => name) }, 'starting');
    app.start();
    const { listen, shutdown_timeout: shutdownTimeoutMs } = config;
    const exitCode = await runService(app.service, { ...listen, shutdownTimeoutMs, logger });
    await app.close();
    await tracing?.close(flushMs);
    return exitCode;
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    for (const problem of error.problems) process.stderr.write(`async-broker: ${problem}\n`);
    return 1;
  }
}
