import { type ExportResult, ExportResultCode } from '@opentelemetry/core';
import { type ReadableSpan, type SpanExporter } from '@opentelemetry/sdk-trace';
import { type Logger } from './pino-logger.ts';

/** Tells the operator when a collector begins to fail and when it takes spans again, not at every batch. */
export class ReportingExporter implements SpanExporter {
  readonly #exporter: SpanExporter;
  readonly #logger: Logger;
  #isFailing = false;

  constructor(exporter: SpanExporter, logger: Logger) {
    this.#exporter = exporter;
    this.#logger = logger;
  }

  export(spans: ReadableSpan[], done: (result: ExportResult) => void): void {
    this.#exporter.export(spans, (result) => {
      this.#report(result);
      done(result);
    });
  }

  shutdown(): Promise<void> {
    return this.#exporter.shutdown();
  }

  #report({ code, error }: ExportResult): void {
    const isFailing = code !== ExportResultCode.SUCCESS;
    if (isFailing === this.#isFailing) return;
    this.#isFailing = isFailing;
    // The error's text may repeat what the collector answered.
    if (isFailing)
      this.#logger.warn({ code: codeOf(error) }, 'spans cannot be sent and are dropped');
    else this.#logger.info('spans are sent again');
  }
}

function codeOf(error: Error | undefined): string | number | undefined {
  if (!error || !('code' in error)) return error?.name;
  const { code } = error;
  return typeof code === 'string' || typeof code === 'number' ? code : error.name;
}
