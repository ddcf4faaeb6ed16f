/** How a request ended without an answer of a model server; section 1.6 has the status of each. */
export type OutcomeCode =
  | 'GATE_DROPPED'
  | 'DEADLINE_EXCEEDED'
  | 'INVALID_REQUEST'
  | 'CANCELLED'
  | 'INFERENCE_ERROR'
  | 'GATE_ERROR';

/** The answer of a model server, as it came. */
export interface ResponseOutcome {
  readonly kind: 'response';
  /** As stored; whoever mirrors it checks that it is 100 to 599. */
  readonly status: number;
  /** Absent when the answer had none. */
  readonly contentType?: string;
  /** The exact bytes, a streamed answer included. */
  readonly body: Buffer;
}

/** The end of a request that has no answer to mirror. */
export interface ErrorOutcome {
  readonly kind: 'error';
  readonly code: OutcomeCode;
  /** For the client: no text of an upstream. */
  readonly message: string;
}

/** How a request ended. The first one stored stays. */
export type Outcome = ResponseOutcome | ErrorOutcome;
