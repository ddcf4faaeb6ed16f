export { decodeContent } from './decode-content.ts';
export { type Api, apiOfPath, apiPaths, legApi } from './paths.ts';
export {
  defaultPhaseHeader,
  type Phase,
  phases,
  pinHeaders,
  requestIdHeader,
  reservedEndpointHeader,
  revisionDecisionIdHeader,
} from './phases.ts';
export { redactBody, redactHeaders } from './redact.ts';
export { toTransportError, TransportError, type TransportFault } from './transport-error.ts';
export {
  type AnswerReceiver,
  type ArrivingBody,
  type CallCounts,
  maxErrorBytes,
  type Payload,
  type StreamFlow,
  type StreamRequest,
  type UpstreamAnswer,
  UpstreamClient,
  type UpstreamOptions,
  type UpstreamRequest,
} from './upstream-client.ts';
