import { readFileSync } from 'node:fs';

/** What the `OTEL_*` variables say about tracing. */
export interface TracingOptions {
  readonly isDisabled: boolean;
  /** False: spans are made, so that logs and legs carry their ids, and are not sent. */
  readonly isExported: boolean;
  /** Attributes of the process, `service.name` among them. */
  readonly resource: Readonly<Record<string, string>>;
  /** Whole URL of the collector. */
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  /** For one batch with its retries. */
  readonly timeoutMs: number;
  readonly isGzipped: boolean;
  readonly tls: { readonly ca?: Buffer; readonly cert?: Buffer; readonly key?: Buffer };
  /** Share of the requests without a sampled parent that is traced, 0 to 1. */
  readonly ratio: number;
  /** Spans that wait for the collector; more are dropped. */
  readonly maxQueuedSpans: number;
  readonly maxBatchSpans: number;
  /** Longest time that a span waits for its batch to fill. */
  readonly delayMs: number;
}

/** What the sampler takes where nothing else is said (coordinator.md 8.2). */
const defaultRatio = 0.1;
const ratioSampler = 'parentbased_traceidratio';

/**
 * Reads the variables of the OpenTelemetry specification that matter here. A value that cannot be used is as good as
 * none, and a warning; warnings never hold a value, which may be a secret.
 */
export function readTracingOptions(
  environment: Readonly<Record<string, string | undefined>>,
  standardName = 'llm-d-coordinator',
): {
  options: TracingOptions;
  warnings: readonly string[];
} {
  const warnings: string[] = [];
  const text = (name: string): string | undefined => environment[name]?.trim() || undefined;
  const read = <T>(
    name: string,
    expected: string,
    parse: (value: string) => T | undefined,
  ): T | undefined => {
    const value = text(name);
    if (value === undefined) return undefined;
    const parsed = parse(value);
    if (parsed === undefined) warnings.push(`${name}: expected ${expected}, it has no effect`);
    return parsed;
  };
  /** The variable for traces alone wins over the one for all signals. */
  const readOtlp = <T>(
    name: string,
    expected: string,
    parse: (value: string) => T | undefined,
  ): T | undefined =>
    read(`OTEL_EXPORTER_OTLP_TRACES_${name}`, expected, parse) ??
    read(`OTEL_EXPORTER_OTLP_${name}`, expected, parse);
  const count = (name: string, fallback: number): number =>
    read(name, 'a whole number above 0', positiveInteger) ?? fallback;

  readOtlp('PROTOCOL', 'http/protobuf', (value) => (value === 'http/protobuf' ? value : undefined));
  const exporter = read('OTEL_TRACES_EXPORTER', 'otlp or none', (value) =>
    value === 'otlp' || value === 'none' ? value : undefined,
  );
  const sampler = read('OTEL_TRACES_SAMPLER', ratioSampler, (value) =>
    value === ratioSampler ? value : undefined,
  );
  const ratio = read('OTEL_TRACES_SAMPLER_ARG', 'a number from 0 to 1', ratioOf);
  const isOtherSampler = text('OTEL_TRACES_SAMPLER') !== undefined && sampler === undefined;
  const serviceName = text('OTEL_SERVICE_NAME');
  const maxQueuedSpans = count('OTEL_BSP_MAX_QUEUE_SIZE', 2_048);
  const options: TracingOptions = {
    isDisabled: text('OTEL_SDK_DISABLED')?.toLowerCase() === 'true',
    isExported: exporter !== 'none',
    resource: {
      'service.name': standardName,
      ...read('OTEL_RESOURCE_ATTRIBUTES', 'key=value pairs', pairs),
      ...(serviceName === undefined ? {} : { 'service.name': serviceName }),
    },
    url:
      read('OTEL_EXPORTER_OTLP_TRACES_ENDPOINT', 'an http address', httpUrl) ??
      read('OTEL_EXPORTER_OTLP_ENDPOINT', 'an http address', tracesUrl) ??
      'http://localhost:4318/v1/traces',
    headers: {
      ...read('OTEL_EXPORTER_OTLP_HEADERS', 'key=value pairs', pairs),
      ...read('OTEL_EXPORTER_OTLP_TRACES_HEADERS', 'key=value pairs', pairs),
    },
    timeoutMs: readOtlp('TIMEOUT', 'milliseconds above 0', positiveInteger) ?? 10_000,
    isGzipped:
      readOtlp('COMPRESSION', 'gzip or none', (value) =>
        value === 'gzip' || value === 'none' ? value : undefined,
      ) === 'gzip',
    tls: Object.fromEntries(
      Object.entries(tlsFiles).flatMap(([part, name]) => {
        const content = readOtlp(name, 'a file that can be read', fileContent);
        return content ? [[part, content]] : [];
      }),
    ),
    ratio: isOtherSampler ? defaultRatio : (ratio ?? defaultRatio),
    maxQueuedSpans,
    maxBatchSpans: Math.min(count('OTEL_BSP_MAX_EXPORT_BATCH_SIZE', 512), maxQueuedSpans),
    delayMs: count('OTEL_BSP_SCHEDULE_DELAY', 5_000),
  };
  return { options, warnings };
}

const tlsFiles = { ca: 'CERTIFICATE', cert: 'CLIENT_CERTIFICATE', key: 'CLIENT_KEY' };

function positiveInteger(value: string): number | undefined {
  const number = Number(value);
  return Number.isSafeInteger(number) && number > 0 ? number : undefined;
}

function ratioOf(value: string): number | undefined {
  const ratio = Number(value);
  return ratio >= 0 && ratio <= 1 ? ratio : undefined;
}

function httpUrl(value: string): string | undefined {
  return /^https?:\/\//i.test(value) && URL.canParse(value) ? value : undefined;
}

function tracesUrl(base: string): string | undefined {
  return httpUrl(`${base.replace(/\/$/, '')}/v1/traces`);
}

/** `key=value` pairs with commas between them, values percent-encoded, as W3C baggage. */
function pairs(text: string): Record<string, string> | undefined {
  const read: Record<string, string> = {};
  for (const pair of text.split(',')) {
    if (pair.trim() === '') continue;
    const equals = pair.indexOf('=');
    const key = pair.slice(0, Math.max(equals, 0)).trim();
    if (key === '') return undefined;
    try {
      read[key] = decodeURIComponent(pair.slice(equals + 1).trim());
    } catch {
      return undefined;
    }
  }
  return read;
}

function fileContent(path: string): Buffer | undefined {
  try {
    return readFileSync(path);
  } catch {
    return undefined;
  }
}
