import { type IncomingMessage, type Server } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { defaultTextMapGetter, ROOT_CONTEXT, SpanKind, type Tracer } from '@opentelemetry/api';
import { W3CTraceContextPropagator } from '@opentelemetry/core';
import { defaultResource, resourceFromAttributes } from '@opentelemetry/resources';
import {
  BatchSpanProcessor,
  ParentBasedSampler,
  type SpanExporter,
  TraceIdRatioBasedSampler,
  TracerProvider,
} from '@opentelemetry/sdk-trace';
import { type Logger } from './pino-logger.ts';
import { OtelRunTrace } from './run-trace.ts';
import { RecordedTrace } from './recorded-trace.ts';
import { ReportingExporter } from './reporting-exporter.ts';
import { RequestClock } from './request-clock.ts';
import { openExporter } from './span-exporter.ts';
import { attribute } from './trace-attributes.ts';
import { type TracingOptions } from './tracing-options.ts';
import { type RequestTrace, type RunTrace, type TracedRun, type Tracing } from './tracing.ts';
import { UnsampledTrace } from './unsampled-trace.ts';

const traceOf = Symbol('trace');

/** Carries its trace: a table beside the requests would have to be swept by every collection. */
type TracedRequest = IncomingMessage & { [traceOf]?: RequestTrace };

/** Tracing with the OpenTelemetry SDK. Registers nothing globally, so that one process may hold several. */
export class OtelTracing implements Tracing {
  readonly #provider: TracerProvider;
  readonly #tracer: Tracer;
  readonly #propagator = new W3CTraceContextPropagator();

  /** `exporter` takes the place of the collector that the options name. */
  constructor(options: TracingOptions, logger: Logger, exporter?: SpanExporter) {
    const opened = exporter ?? (options.isExported ? openExporter(options) : undefined);
    this.#provider = new TracerProvider({
      resource: defaultResource().merge(resourceFromAttributes(options.resource)),
      sampler: new ParentBasedSampler({ root: new TraceIdRatioBasedSampler(options.ratio) }),
      spanProcessors: opened
        ? [
            new BatchSpanProcessor({
              exporter: new ReportingExporter(opened, logger),
              maxQueueSize: options.maxQueuedSpans,
              maxExportBatchSize: options.maxBatchSpans,
              scheduledDelayMillis: options.delayMs,
            }),
          ]
        : [],
    });
    this.#tracer = this.#provider.getTracer('llm-d');
  }

  watch(server: Server, isIgnored: (url: string) => boolean): void {
    server.prependListener('request', (request: TracedRequest, response) => {
      const { method = 'GET', url = '', headers } = request;
      if (isIgnored(url)) return;
      const clock = new RequestClock();
      const parent = this.#propagator.extract(ROOT_CONTEXT, headers, defaultTextMapGetter);
      const options = { kind: SpanKind.SERVER, startTime: clock.now() };
      const span = this.#tracer.startSpan(method, options, parent);
      if (!span.isRecording()) {
        request[traceOf] = new UnsampledTrace(span.spanContext());
        return;
      }
      span.setAttributes({
        [attribute.method]: method,
        [attribute.urlPath]: url.split('?', 1)[0] ?? '',
      });
      const recorded = new RecordedTrace(this.#tracer, clock, span, method);
      request[traceOf] = recorded;
      response.once('close', () => {
        recorded.responseClosed(response.headersSent ? response.statusCode : undefined);
      });
    });
  }

  of(request: TracedRequest): RequestTrace | undefined {
    return request[traceOf];
  }

  beginRun({ traceparent, lane, retries }: TracedRun): RunTrace {
    const carrier = traceparent === undefined ? {} : { traceparent };
    const parent = this.#propagator.extract(ROOT_CONTEXT, carrier, defaultTextMapGetter);
    const attributes = {
      [attribute.queueId]: lane,
      [attribute.queueName]: lane,
      [attribute.retryCount]: retries,
    };
    const options = { kind: SpanKind.CONSUMER, attributes };
    return new OtelRunTrace(
      this.#tracer,
      this.#tracer.startSpan('process-request', options, parent),
    );
  }

  async close(limitMs: number): Promise<void> {
    // What could not be sent has been reported.
    const flushed = this.#provider.shutdown().catch(() => {});
    await Promise.race([flushed, sleep(limitMs, undefined, { ref: false })]);
  }
}
