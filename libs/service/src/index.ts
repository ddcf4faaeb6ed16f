export { Admission, type AdmissionLimits, type RefusalReason, Ticket } from './admission.ts';
export { createService, type Service, type ServiceOptions } from './create-service.ts';
export { type DependencyCheck, isProbe, type Readiness } from './health.controller.ts';
export { type ErrorWriter } from './error.filter.ts';
export { type EdgeObserver, type Refusal } from './edge-observer.ts';
export { type AnswerExtras, HttpSink } from './http-sink.ts';
export { KeepAliveSink } from './keep-alive-sink.ts';
export { Lifecycle } from './lifecycle.ts';
export { isLoopback, type ListenAddress, parseListenAddress } from './listen-address.ts';
export {
  type MetricsListener,
  type MetricsListenerOptions,
  startMetricsListener,
} from './metrics-listener.ts';
export { RequestError } from './request-error.ts';
export { type RunningService, type RunOptions, runService, startService } from './run-service.ts';
export { ServerTls, type TlsSettings } from './server-tls.ts';
export { tlsOptions, type TlsProfile } from './tls-options.ts';
export { type UnknownPathHandler } from './unknown-path.ts';
export { UnreadBody } from './unread-body.ts';
