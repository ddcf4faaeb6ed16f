import { requestIdHeader } from '@llm-d/gateway';

/** What a dispatch says besides the client's body. */
export interface DispatchIdentity {
  /** Fresh for every attempt: the client's own id names the record, not this call. */
  readonly requestId: string;
  readonly tenant: string;
  /** Name of an InferenceObjective; none when the tier has no mapping. */
  readonly objective: string | undefined;
  readonly traceparent: string | undefined;
  /** Of the client's body. */
  readonly contentType: string;
  /** What admission let through of the client's headers, names and values in turn. */
  readonly forwarded: readonly string[];
}

/** Priority band of the router. */
export const objectiveHeader = 'x-llm-d-inference-objective';
/** Tenant for the router's flow control. */
export const fairnessHeader = 'x-llm-d-inference-fairness-id';

/** A coordinator does not queue what has it, even when something on the way adds a mode. */
export const dispatchHeader = 'x-llm-d-async-dispatch';

/** Never forwarded, whatever was stored: with one of the mode headers a dispatch would be queued again. */
const refused = new Set([
  ...['x-llm-d-async-mode', 'x-ap-mode', 'x-llm-d-tenant', 'x-team'],
  ...['x-llm-d-request-timeout-seconds', 'x-request-timeout-seconds', requestIdHeader],
  ...[objectiveHeader, 'x-gateway-inference-objective'],
  ...[fairnessHeader, 'x-gateway-inference-fairness-id', 'x-gateway-priority'],
  ...['host', 'content-length', 'content-type', 'transfer-encoding', 'connection', 'te', 'upgrade'],
  ...['expect', 'keep-alive', 'proxy-connection', 'trailer', 'accept-encoding', 'content-encoding'],
  ...['traceparent', 'epp-profile', dispatchHeader],
]);

const longestFairnessBytes = 256;
const headerName = /^[a-z0-9!#$%&'*+.^_`|~-]+$/;
// Visible ASCII with blanks and tabs inside: what every hop takes for a header value.
const headerValue = /^[!-~](?:[\t -~]*[!-~])?$/;

/** Headers of a dispatch as names and values in turn. */
export function dispatchHeaders(identity: DispatchIdentity): string[] {
  const { requestId, tenant, objective, traceparent, contentType, forwarded } = identity;
  const type = headerValue.test(contentType) ? contentType : 'application/json';
  const headers = ['content-type', type, requestIdHeader, requestId, dispatchHeader, '1'];
  for (let i = 0; i + 1 < forwarded.length; i += 2) {
    const name = forwarded[i]?.toLowerCase() ?? '';
    const value = forwarded[i + 1] ?? '';
    if (refused.has(name)) continue;
    if (headerName.test(name) && headerValue.test(value)) headers.push(name, value);
  }
  if (traceparent !== undefined && headerValue.test(traceparent)) {
    headers.push('traceparent', traceparent);
  }
  if (objective !== undefined) headers.push(objectiveHeader, objective);
  if (tenant.length <= longestFairnessBytes && headerValue.test(tenant)) {
    headers.push(fairnessHeader, tenant);
  }
  return headers;
}
