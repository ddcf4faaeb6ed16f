import { type LoggerService } from '@nestjs/common';
import { type Logger } from '@llm-d/telemetry';

/** Hands Nest's own messages to pino; its start-up chatter is for debugging Nest only. */
export class NestLogger implements LoggerService {
  readonly #logger: Logger;

  constructor(logger: Logger) {
    this.#logger = logger;
  }

  log(message: unknown): void {
    this.#logger.trace(String(message));
  }

  warn(message: unknown): void {
    this.#logger.warn(String(message));
  }

  error(message: unknown, ...details: unknown[]): void {
    this.#logger.error({ details }, String(message));
  }

  fatal(message: unknown, ...details: unknown[]): void {
    this.#logger.fatal({ details }, String(message));
  }
}
