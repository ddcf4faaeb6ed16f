export { decodeContent } from './decode-content.ts';
export { type Api, apiOfPath, apiPaths, legApi } from './paths.ts';
export {
  defaultPhaseHeader,
  type Phase,
  phases,
  requestIdHeader,
  revisionDecisionIdHeader,
} from './phases.ts';
export { toTransportError, TransportError, type TransportFault } from './transport-error.ts';
export {
  type AnswerReceiver,
  type ArrivingBody,
  maxErrorBytes,
  type Payload,
  type StreamFlow,
  type StreamRequest,
  type UpstreamAnswer,
  UpstreamClient,
  type UpstreamOptions,
  type UpstreamRequest,
} from './upstream-client.ts';
