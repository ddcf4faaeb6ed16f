export { AsyncMetrics, type WatchedQueue } from './async-metrics.ts';
export { type ErrorCode, errorCode } from './error-code.ts';
export { FaultLog } from './fault-log.ts';
export { type CountedMediaItem, MediaMetrics, type WatchedMedia } from './media-metrics.ts';
export {
  type CountedDownload,
  type CountedEnd,
  type CountedRequest,
  CoordinatorMetrics,
} from './metrics.ts';
export { type MetricsText, metricsText } from './metrics-text.ts';
export { type ModelSeries } from './model-table.ts';
export { createLogger, type Logger, type LoggerOptions, type LogLevel } from './pino-logger.ts';
export { type ExecutionPath, executionPath } from './execution-path.ts';
export {
  type CallTrace,
  type EndedWork,
  type PipelineTrace,
  type RequestTrace,
  type RunTrace,
  startTracing,
  type TracedContext,
  traceHeaders,
  type TracedRun,
  type TraceIds,
  type Tracing,
} from './tracing.ts';
