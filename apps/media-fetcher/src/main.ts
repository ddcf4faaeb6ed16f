import { ConfigError, programText, relaxCollector } from '@llm-d/config';
import { runService } from '@llm-d/service';
import { createLogger, startTracing } from '@llm-d/telemetry';
import { createApp } from './app.ts';
import { loadFetcherConfig } from './config.ts';
import { FetcherMetrics } from './fetcher-metrics.ts';
import { helpText } from './help.ts';

/** For spans that are left when the last request has ended. */
const flushLimitMs = 2_000;

const packageFile = new URL('../package.json', import.meta.url);

relaxCollector();
process.exit(await main(process.argv.slice(2)));

/** Starts the media fetcher and runs it until it is told to stop. Resolves to the exit code. */
async function main(argv: readonly string[]): Promise<number> {
  try {
    const text = programText(argv, { name: 'media-fetcher', packageFile, help: helpText });
    if (text !== undefined) {
      process.stdout.write(text);
      return 0;
    }
    const { config, warnings } = loadFetcherConfig(argv, process.env);
    const logger = createLogger({ service: 'media-fetcher', level: config.logLevel });
    const metrics = new FetcherMetrics({ hasProcess: true });
    const tracing = config.tracing
      ? await startTracing(process.env, logger, 'llm-d-media-fetcher')
      : undefined;
    const app = await createApp({ config, logger, metrics, tracing });
    for (const warning of warnings) logger.warn(warning);
    const { media, tokens } = config;
    logger.info(
      {
        node: process.version,
        has_tokens: tokens.isRequired,
        // Whether there is one; its address may hold credentials.
        has_proxy: Boolean(media.proxy?.httpProxy || media.proxy?.httpsProxy),
        has_cache: media.cache !== undefined,
        has_redis: Boolean(media.cache?.redisUrl),
        is_traced: tracing !== undefined,
      },
      'starting',
    );
    try {
      return await runService(app.service, { ...config, ...config.listen, logger });
    } finally {
      await app.close();
      await tracing?.close(flushLimitMs);
    }
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    for (const problem of error.problems) process.stderr.write(`media-fetcher: ${problem}\n`);
    return 1;
  }
}
