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
export { maxErrorBytes, UpstreamClient, type UpstreamOptions } from './upstream-client.ts';
export {
  type AnswerReceiver,
  type ArrivingBody,
  type CallCounts,
  type Payload,
  type StreamFlow,
  type StreamRequest,
  type UpstreamAnswer,
  type UpstreamRequest,
} from './upstream-request.ts';
