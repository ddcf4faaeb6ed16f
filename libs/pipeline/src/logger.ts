/** Structured log lines: fields first, then a fixed message. A pino logger fits. */
export interface Logger {
  error(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  info(fields: object, message: string): void;
  debug(fields: object, message: string): void;
}

/** Drops every line. */
export const silentLogger: Logger = { error() {}, warn() {}, info() {}, debug() {} };
