import { ConfigError, type CoordinatorConfig } from '@llm-d/config';
import { createMediaFetcher, type MediaSettings } from '@llm-d/media';
import { HandoffCounts, headerPolicy, type StepDefinition } from '@llm-d/pipeline';
import {
  Admission,
  createService,
  isProbe,
  Lifecycle,
  type Service,
  ServerTls,
} from '@llm-d/service';
import { asyncBroker, Passthrough } from '@llm-d/steps';
import { CoordinatorMetrics, type Logger, traceHeaders, type Tracing } from '@llm-d/telemetry';
import { AppModule } from './app.module.ts';
import type { BrokerHost } from './queue/broker-host.ts';
import { configurePipeline } from './coordinator-pipeline.ts';
import { dependencies } from './dependencies.ts';
import { mediaSource } from './media-source.ts';
import { PassthroughHandler } from './passthrough-handler.ts';
import { RecentRequests } from './recent-requests.ts';
import { edgeMetrics } from './request-metrics.ts';

/** What a coordinator is made of. */
export interface AppOptions {
  readonly config: CoordinatorConfig;
  readonly logger: Logger;
  /** How media is downloaded and kept: the section `media` and the proxies of the environment. */
  readonly media?: MediaSettings;
  /** Where SGLang prefill pods wait for decode pods; 8998 when absent. */
  readonly bootstrapPort?: number;
  /** What counts the requests; one of its own when absent. */
  readonly metrics?: CoordinatorMetrics;
  /** Absent where requests are not traced; whoever started it closes it. */
  readonly tracing?: Tracing | undefined;
  /** Kinds of steps besides those that come with the coordinator. */
  readonly definitions?: readonly StepDefinition[];
}

/** A coordinator that does not listen yet. */
export interface Coordinator {
  readonly service: Service;
  /** What the author of the configuration should hear. */
  readonly warnings: readonly string[];
  readonly metrics: CoordinatorMetrics;
  /** Present when `server.debug_addr` is set. */
  readonly recent: RecentRequests | undefined;
  /** What is being served, and what was turned away. */
  readonly admission: Admission;
  /** Hand-offs since the start. */
  readonly handoffs: HandoffCounts;
  /** Closes the connections to gateway, render, media and the queue; after the service has stopped. */
  close(): Promise<void>;
}

/** Builds a coordinator from its configuration. Throws a ConfigError when its steps cannot work. */
export async function createApp(options: AppOptions): Promise<Coordinator> {
  const { config, logger, tracing, metrics = new CoordinatorMetrics() } = options;
  const { server, pipeline: pipelineConfig } = config;
  const fetcher = createMediaFetcher(options.media, {
    onDownload: (download) => {
      metrics.downloadEnded(download);
    },
    onItem: (item) => {
      metrics.media.itemEnded(item);
    },
    onCacheUse: (status, tier) => {
      metrics.media.cacheUsed(status, tier);
    },
    onCacheAltered: (reason) => {
      metrics.media.cacheAltered();
      logger.warn(`media.cache.redis_url: ${reason}`);
    },
    onRedisState: (state, reason) => {
      metrics.media.redisBecame(state);
      logger[state === 'ok' ? 'info' : 'warn'](
        { media_redis: state },
        `media.cache.redis_url: ${reason}`,
      );
    },
  });
  metrics.watchMedia(fetcher);
  if (options.media?.cache?.redisUrl) metrics.media.redisBecame('ok');
  const handoffs = new HandoffCounts();
  const asyncHost = await queueHost(pipelineConfig, logger, metrics);
  const { pipeline, gateway, warnings } = await configured(asyncHost, () =>
    configurePipeline(
      config,
      mediaSource(fetcher, (item) => {
        metrics.remoteMediaEnded(item);
      }),
      logger,
      (event) => {
        handoffs.count(event);
        metrics.handoff(event);
      },
      options.bootstrapPort,
      options.definitions,
      asyncHost,
    ),
  );
  const queue = asyncHost?.queue;
  const recent = server.debugAddress === '' ? undefined : new RecentRequests();
  const headers = {
    strip: server.stripRequestHeaders,
    keep: server.keepRequestHeaders,
    reserved: [
      ...pipelineConfig.forwardResponseHeaders,
      pipelineConfig.wire.phaseHeader,
      pipelineConfig.wire.pinHeader,
      // With spans of our own every leg carries the trace context of its span.
      ...(tracing ? traceHeaders : []),
    ],
  };
  const passthrough = pipelineConfig.hasPassthrough
    ? new Passthrough({ ...pipelineConfig, gateway })
    : undefined;
  const admission = new Admission(
    { ...server.admission, queueTimeoutMs: queueTimeoutMs(server) },
    server.maxRequestBodyBytes,
  );
  metrics.watchAdmission(admission);
  const tls = server.isSecure ? await loadTls(server.tls, logger) : undefined;
  const service = await createService({
    module: AppModule.register(
      {
        pipeline,
        headerPolicy: headerPolicy(headers),
        writeTimeoutMs: server.writeTimeoutMs,
        streamKeepAliveMs: server.streamKeepAliveMs,
        metrics,
        receipts: { hasReceipt: server.hasReceipts, hasServerTiming: server.hasServerTiming },
        phaseHeader: pipelineConfig.wire.phaseHeader,
        logger,
        recent,
        tracing,
        async: queue,
      },
      passthrough && {
        passthrough,
        headerPolicy: headerPolicy({ ...headers, hasClientBody: true }),
        logger,
        recent,
        tracing,
      },
      queue && { ...queue, logger, tracing },
    ),
    logger,
    bodyLimitBytes: server.maxRequestBodyBytes,
    readTimeoutMs: server.readTimeoutMs,
    idleTimeoutMs: server.idleTimeoutMs,
    tls,
    admission,
    observer: edgeMetrics(metrics),
    unknownPaths: passthrough && PassthroughHandler,
    dependencies: {
      ...Object.fromEntries(
        Object.entries(dependencies(config)).map(([name, { check }]) => [name, check]),
      ),
      ...(queue && asyncHost && { queue: () => asyncHost.check() }),
    },
    logFields: tracing && ((request) => tracing.of(request)?.ids),
  });
  tracing?.watch(service.getHttpServer(), isProbe);
  const lifecycle = service.get(Lifecycle);
  lifecycle.beforeEnd(() => pipeline.idle());
  lifecycle.draining.addEventListener('abort', () => {
    asyncHost?.releaseWaits();
  });
  lifecycle.onCut(() => void pipeline.endWork());
  return {
    service,
    warnings,
    metrics,
    recent,
    admission,
    handoffs,
    close: async () => {
      await Promise.all([pipeline.close(), fetcher.close(), asyncHost?.close()]);
    },
  };
}

/** Where nothing is queued, BullMQ and its Redis client are not even loaded: they are a quarter of the start. */
async function queueHost(
  { steps }: CoordinatorConfig['pipeline'],
  logger: Logger,
  metrics: CoordinatorMetrics,
): Promise<BrokerHost | undefined> {
  if (!steps.some(({ type }) => type === asyncBroker.type)) return undefined;
  const { BrokerHost } = await import('./queue/broker-host.ts');
  return new BrokerHost(logger, metrics);
}

/** A pipeline that cannot be built leaves no connection behind, which would keep the process alive. */
async function configured<T>(asyncHost: BrokerHost | undefined, configure: () => T): Promise<T> {
  try {
    return configure();
  } catch (error) {
    await asyncHost?.close();
    throw error;
  }
}

/** A request that waits has not arrived whole: past the read timeout it would be refused as a slow one. */
function queueTimeoutMs({ admission, readTimeoutMs }: CoordinatorConfig['server']): number {
  const limits = [admission.queueTimeoutMs, readTimeoutMs].filter((limit) => limit > 0);
  return limits.length === 0 ? 0 : Math.min(...limits);
}

async function loadTls(settings: CoordinatorConfig['server']['tls'], logger: Logger) {
  try {
    return await ServerTls.load(settings, logger);
  } catch (error) {
    // Says which file is missing, or what OpenSSL finds wrong; never a byte of the key.
    throw new ConfigError([`server.cert_path: ${(error as Error).message}`], { cause: error });
  }
}
