/** The phases of an inference request, each served by pods of that role. */
export const phases = ['encode', 'prefill', 'decode'] as const;
export type Phase = (typeof phases)[number];

/** Names the phase of a leg to the endpoint picker. The newest upstream renames it to `x-llm-d-epp-profile`. */
export const defaultPhaseHeader = 'EPP-Profile';

/** Groups the legs of one request for the endpoint picker; independent of the request id. */
export const revisionDecisionIdHeader = 'x-llm-d-revision-decision-id';

export const requestIdHeader = 'x-request-id';
