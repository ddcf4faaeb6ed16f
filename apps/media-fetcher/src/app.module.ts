import { type DynamicModule, Module } from '@nestjs/common';
import { MediaFetcher, type MediaFetchOptions } from '@llm-d/media';
import { Lifecycle } from '@llm-d/service';
import { type Tracing } from '@llm-d/telemetry';
import { FetcherMetrics } from './fetcher-metrics.ts';
import { MediaCalls } from './media-calls.ts';
import { ceiling, MediaController, requestTraces } from './media.controller.ts';
import { MetricsController } from './metrics.controller.ts';
import { RunningCalls } from './running-calls.ts';

/** What the routes work with. */
export interface ModuleParts {
  readonly fetcher: MediaFetcher;
  readonly calls: MediaCalls;
  readonly metrics: FetcherMetrics;
  readonly ceiling: MediaFetchOptions;
  readonly tracing: Tracing | undefined;
  readonly writeTimeoutMs: number;
}

/** Wires the routes of a media fetcher. */
@Module({})
export class AppModule {
  static register(parts: ModuleParts): DynamicModule {
    return {
      module: AppModule,
      controllers: [MediaController, MetricsController],
      providers: [
        { provide: MediaFetcher, useValue: parts.fetcher },
        { provide: MediaCalls, useValue: parts.calls },
        { provide: FetcherMetrics, useValue: parts.metrics },
        { provide: ceiling, useValue: parts.ceiling },
        { provide: requestTraces, useValue: parts.tracing },
        {
          provide: RunningCalls,
          useFactory: (lifecycle: Lifecycle) => new RunningCalls(lifecycle, parts.writeTimeoutMs),
          inject: [Lifecycle],
        },
      ],
    };
  }
}
