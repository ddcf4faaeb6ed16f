import { ConfigError } from '@llm-d/config';
import { createMediaFetcher, defaultMediaLimits, type MediaSettings } from '@llm-d/media';
import {
  Admission,
  createService,
  isProbe,
  type Readiness,
  RequestError,
  type Service,
} from '@llm-d/service';
import { type Logger, type Tracing } from '@llm-d/telemetry';
import { AppModule } from './app.module.ts';
import { type FetcherConfig } from './config.ts';
import { FetcherMetrics } from './fetcher-metrics.ts';
import { MediaCalls } from './media-calls.ts';
import { edgeProblem, nosniff } from './problem.ts';
import { maxInlineBodyBytes } from './request-body.ts';

/** What a media fetcher is made of. */
export interface AppOptions {
  readonly config: FetcherConfig;
  readonly logger: Logger;
  readonly metrics?: FetcherMetrics;
  /** Absent where requests are not traced; whoever started it closes it. */
  readonly tracing?: Tracing | undefined;
}

/** A media fetcher that does not listen yet. */
export interface MediaFetcherApp {
  readonly service: Service;
  /** Closes connections and cache; after the service has stopped. */
  close(): Promise<void>;
}

/** Builds a media fetcher from its configuration. Throws a ConfigError for settings that cannot work. */
export async function createApp(options: AppOptions): Promise<MediaFetcherApp> {
  const { config, logger, tracing, metrics = new FetcherMetrics() } = options;
  const { media, ceiling, tokens } = config;
  let cacheState = cacheAtStart(media);
  const fetcher = building(() =>
    createMediaFetcher(media, {
      onItem: (item) => {
        metrics.media.itemEnded(item);
      },
      onCacheUse: (status, tier) => {
        metrics.media.cacheUsed(status, tier);
      },
      onCacheAltered: (reason) => {
        metrics.media.cacheAltered();
        logger.warn(`cache.redis_url: ${reason}`);
      },
      onRedisState: (state, reason) => {
        cacheState = state === 'ok' ? 'ok' : 'degraded';
        metrics.media.redisBecame(state);
        logger[state === 'ok' ? 'info' : 'warn']({ state }, `cache.redis_url: ${reason}`);
      },
    }),
  );
  const bodyLimitBytes = maxInlineBodyBytes(ceiling);
  const admission = new Admission(config.admission, bodyLimitBytes);
  metrics.watch(fetcher, admission);
  const maxQueuedDownloads =
    media.limits?.globalMaxQueuedDownloads ?? defaultMediaLimits.globalMaxQueuedDownloads;
  const readiness = (): Readiness => {
    const isFull =
      (config.admission.maxConcurrentRequests > 0 &&
        admission.queued >= config.admission.maxQueuedRequests &&
        admission.running >= config.admission.maxConcurrentRequests) ||
      (maxQueuedDownloads > 0 && fetcher.stats().queuedDownloads >= maxQueuedDownloads);
    return { unready: isFull ? 'saturated' : undefined, facts: { cache: cacheState } };
  };
  const service = await createService({
    module: AppModule.register({
      fetcher,
      calls: new MediaCalls(fetcher, logger),
      metrics,
      ceiling,
      tracing,
      writeTimeoutMs: config.writeTimeoutMs,
    }),
    logger,
    bodyLimitBytes,
    readTimeoutMs: config.readTimeoutMs,
    admission,
    openPaths: ['/metrics'],
    authorize: ({ headers }) =>
      tokens.accepts(headers.authorization) ? undefined : unauthorized(),
    readiness,
    errorResponse: edgeProblem,
    logFields: tracing && ((request) => tracing.of(request)?.ids),
  });
  tracing?.watch(service.getHttpServer(), (url) => isProbe(url) || url === '/metrics');
  service
    .getHttpAdapter()
    .getInstance()
    .addHook('onRequest', (_request, reply, done) => {
      void reply.header(...nosniff);
      done();
    });
  return { service, close: () => fetcher.close() };
}

/** Redis counts as there until it has failed. */
const cacheAtStart = ({ cache }: MediaSettings): 'ok' | 'degraded' | 'disabled' =>
  cache ? 'ok' : 'disabled';

/** What is wrong with a setting is told to the operator. */
function building<T>(build: () => T): T {
  try {
    return build();
  } catch (error) {
    throw new ConfigError([(error as Error).message], { cause: error });
  }
}

function unauthorized(): RequestError {
  return new RequestError(401, 'UNAUTHORIZED', 'a bearer token is required', {
    headers: ['www-authenticate', 'Bearer'],
  });
}
