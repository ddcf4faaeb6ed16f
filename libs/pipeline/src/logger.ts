/** Structured log lines: fields first, then a fixed message. A pino logger fits. */
export interface Logger {
  error(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  info(fields: object, message: string): void;
  debug(fields: object, message: string): void;
  /** What happens in the ordinary course, such as a client that leaves. */
  verbose?(fields: object, message: string): void;
  /** Bodies and every step; never on by default. */
  trace?(fields: object, message: string): void;
  /** Whether lines of a level are written, to be asked before making one costs something. Absent: they are not. */
  isLevelEnabled?(level: 'debug' | 'trace'): boolean;
}

/** Drops every line. */
export const silentLogger: Logger = { error() {}, warn() {}, info() {}, debug() {} };
