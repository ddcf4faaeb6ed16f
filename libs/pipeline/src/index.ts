export {
  type AsyncHost,
  type QueueOptions,
  type StoredRequestCall,
  type StoredRequests,
  type WholeAnswer,
} from './async-host.ts';
export { Background, type BackgroundLimits, backgroundLimits } from './background.ts';
export {
  type ErrorResponse,
  errorBody,
  errorEvent,
  errorType,
  toErrorResponse,
} from './error-response.ts';
export {
  AnswerTimeoutError,
  BadRequestError,
  BadUpstreamAnswerError,
  ClientGoneError,
  CoordinatorError,
  type ErrorDetails,
  type GatewayFault,
  InternalError,
  isMediaFault,
  MediaRefusedError,
  OutcomeError,
  type RelayedError,
  ResponseStartedError,
  toCoordinatorError,
  UpstreamError,
  UpstreamTransportError,
} from './errors.ts';
export { AnswerTail, answerTailBytes } from './answer-tail.ts';
export { ForwardedHeaders, type HeaderPolicy, headerPolicy } from './forwarded-headers.ts';
export {
  Handoff,
  type HandoffEvent,
  type HandoffKind,
  type HandoffListener,
  type HandoffOutcome,
  type HandoffState,
  summarizeHandoffs,
} from './handoff.ts';
export { HandoffCounts, type HandoffTotals } from './handoff-counts.ts';
export { type Logger, silentLogger } from './logger.ts';
export {
  type MediaContent,
  type ImageTransform,
  type MediaLimits,
  type MediaReference,
  type MediaSource,
  type RemoteMediaItem,
  type ReportedMediaFault,
} from './media-source.ts';
export { OpenItems } from './open-items.ts';
export { Pipeline, type RunSteps } from './pipeline.ts';
export {
  type Found,
  type QueuedName,
  type QueuedOutcome,
  type QueuedRef,
  type QueuedRequest,
  type QueueRefusal,
  QueueUnavailableError,
  type QuotaPlace,
  type RequestQueue,
  type Submitted,
  type WaitEnd,
} from './request-queue.ts';
export {
  type AsyncMode,
  type MediaEntry,
  type Modality,
  type Placeholder,
  RequestContext,
  type RequestInit,
} from './request-context.ts';
export { type ResponseSink } from './response-sink.ts';
export {
  defineStep,
  type Step,
  type StepDefinition,
  type StepDependencies,
  type StepOutcome,
  type WireOptions,
} from './step.ts';
export { type NamedStep, type StepConfig, StepRegistry } from './step-registry.ts';
export { legName, type RequestObserver, type TimelineEntry } from './timeline.ts';
export { TokenIdError, TokenIds } from './token-ids.ts';
export { readUsage, type Usage } from './usage.ts';
