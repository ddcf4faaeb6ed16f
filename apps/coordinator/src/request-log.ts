import { type Logger } from '@llm-d/pipeline';
import { type TraceIds } from '@llm-d/telemetry';

/** Writes the request id, and the trace ids of a traced request, on every line; a child logger would serialize it even for silent requests. */
export class RequestLog implements Logger {
  readonly #logger: Logger;
  readonly #requestId: string;
  readonly #trace: TraceIds | undefined;

  constructor(logger: Logger, requestId: string, trace?: TraceIds) {
    this.#logger = logger;
    this.#requestId = requestId;
    this.#trace = trace;
  }

  error(fields: object, message: string): void {
    this.#logger.error({ request_id: this.#requestId, ...this.#trace, ...fields }, message);
  }

  warn(fields: object, message: string): void {
    this.#logger.warn({ request_id: this.#requestId, ...this.#trace, ...fields }, message);
  }

  info(fields: object, message: string): void {
    this.#logger.info({ request_id: this.#requestId, ...this.#trace, ...fields }, message);
  }

  verbose(fields: object, message: string): void {
    this.#logger.verbose?.({ request_id: this.#requestId, ...fields }, message);
  }

  debug(fields: object, message: string): void {
    this.#logger.debug({ request_id: this.#requestId, ...this.#trace, ...fields }, message);
  }

  trace(fields: object, message: string): void {
    this.#logger.trace?.({ request_id: this.#requestId, ...fields }, message);
  }

  isLevelEnabled(level: 'debug' | 'trace'): boolean {
    return this.#logger.isLevelEnabled?.(level) ?? false;
  }
}
