export { createLogger, type Logger, type LoggerOptions, type LogLevel } from './pino-logger.ts';
