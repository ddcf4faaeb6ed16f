import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-proto';
import { type SpanExporter } from '@opentelemetry/sdk-trace';
import { type TracingOptions } from './tracing-options.ts';

type ExporterOptions = NonNullable<ConstructorParameters<typeof OTLPTraceExporter>[0]>;
type Compression = NonNullable<ExporterOptions['compression']>;

/**
 * Sends spans to a collector. What is left out the exporter would take from the environment of the process, past the
 * one that was handed in.
 */
export function openExporter(options: TracingOptions): SpanExporter {
  const { url, headers, timeoutMs, isGzipped, tls } = options;
  return new OTLPTraceExporter({
    url,
    headers,
    timeoutMillis: timeoutMs,
    // The package of this enum is not ours to import.
    compression: (isGzipped ? 'gzip' : 'none') as Compression,
    httpAgentOptions: { keepAlive: true, ...tls },
  });
}
