import { type GatewayFault } from '@llm-d/pipeline';

/** In which an endpoint picker says why it has dropped a request. */
export const droppedReasonHeader = 'x-llm-d-request-dropped-reason';

/** Tells a gateway's own answers from those of a pod (gateway-verified.md 5). */
export function gatewayFault(
  status: number,
  droppedReason: string | string[] | undefined,
  isEmpty: boolean,
): GatewayFault | undefined {
  if (droppedReason !== undefined && (status === 429 || status === 503)) {
    return 'GATEWAY_NO_CAPACITY';
  }
  // 500 is Envoy's own choice, 503 that of `status_on_error` in our files.
  if (isEmpty && (status === 500 || status === 503)) return 'GATEWAY_PICKER_DOWN';
  return undefined;
}
