export { createLogger, type Logger, type LoggerOptions, type LogLevel } from './pino-logger.ts';
export { type ExecutionPath, executionPath } from './execution-path.ts';
export {
  type PipelineTrace,
  type RequestTrace,
  startTracing,
  type TracedContext,
  traceHeaders,
  type TraceIds,
  type Tracing,
} from './tracing.ts';
