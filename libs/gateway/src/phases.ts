/** The phases of an inference request, each served by pods of that role. */
export const phases = ['encode', 'prefill', 'decode'] as const;
export type Phase = (typeof phases)[number];

/** Names the phase of a leg to the endpoint picker. The newest upstream renames it to `x-llm-d-epp-profile`. */
export const defaultPhaseHeader = 'EPP-Profile';

/** Groups the legs of one request for the endpoint picker; independent of the request id. */
export const revisionDecisionIdHeader = 'x-llm-d-revision-decision-id';

export const requestIdHeader = 'x-request-id';

/** Send a prefill leg to exactly one pod; the second name is that of the latest routers. */
export const pinHeaders = ['x-prefill-pin-host-port', 'x-llm-d-pin-host-port'] as const;

/** In which a gateway answers `Prefer: reserve-endpoint` with the pod it has chosen, for example `10.0.3.7:8000`. */
export const reservedEndpointHeader = 'x-llm-d-reserved-host-port';
