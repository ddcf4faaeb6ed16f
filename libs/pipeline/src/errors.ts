import { TransportError, type TransportFault } from '@llm-d/gateway';

/** What an error may tell beyond its message. */
export interface ErrorDetails extends ErrorOptions {
  /** The member of the request that is at fault, for example `messages[0].content[1]`. */
  param?: string;
}

/** The same in every copy of this package: a step from outside may have brought its own. */
const brand = Symbol.for('@llm-d/pipeline.CoordinatorError');

/**
 * A failure with a status and a stable code. The message is for the client: it holds no text of an upstream, no URL and
 * nothing that the client sent but field paths and numbers.
 */
export abstract class CoordinatorError extends Error {
  abstract readonly code: string;
  /** The status that the client gets, as long as nothing was sent. */
  abstract readonly status: number;
  readonly param: string | undefined;
  /** The `type` of the error object; that of the status when undefined. */
  readonly type: string | undefined = undefined;
  /** The step that failed; the pipeline fills it in. */
  step: string | undefined;
  /** Headers for the client, for example `retry-after`; names and values in turn. */
  readonly headers: readonly string[] = [];

  constructor(message: string, details?: ErrorDetails) {
    super(message, details);
    this.param = details?.param;
  }

  static {
    Object.defineProperty(this.prototype, brand, { value: true });
    Object.defineProperty(this, Symbol.hasInstance, { value: isInstance });
  }
}

/** `instanceof` for the errors of this file: those of another copy count by brand and class name. */
function isInstance(this: { readonly name: string }, value: unknown): boolean {
  if (Function.prototype[Symbol.hasInstance].call(this, value)) return true;
  const isBranded = typeof value === 'object' && value !== null && brand in value;
  return isBranded && (this === CoordinatorError || ('name' in value && value.name === this.name));
}

/** The client can mend it: the message says how. */
export class BadRequestError extends CoordinatorError {
  override readonly name = 'BadRequestError';
  override readonly code: string;
  override readonly status: number;

  constructor(message: string, details?: ErrorDetails & { code?: string; status?: number }) {
    super(message, details);
    this.code = details?.code ?? 'BAD_REQUEST';
    this.status = details?.status ?? 400;
  }
}

/** What `server.upstream_errors: relay` lets through of an engine's error answer. */
export interface RelayedError {
  readonly message: string;
  readonly type: string;
  readonly param: string | null;
}

/** Answers that a gateway gives itself, in the place of a pod (gateway-verified.md 10, rule 2). */
export type GatewayFault = 'GATEWAY_NO_CAPACITY' | 'GATEWAY_PICKER_DOWN';

const gatewayFaults: Record<GatewayFault, string> = {
  GATEWAY_NO_CAPACITY: 'the gateway has no pod for this phase that can take the request',
  GATEWAY_PICKER_DOWN: 'the gateway cannot reach its endpoint picker',
};

/** An upstream answered with a status that the step cannot use. */
export class UpstreamError extends CoordinatorError {
  override readonly name = 'UpstreamError';
  override readonly code: 'UPSTREAM_ERROR' | GatewayFault;
  /** 4xx and 503 stay, so that clients retry what may be retried; the rest is a bad gateway. */
  override readonly status: number;
  override readonly headers: readonly string[];
  readonly upstreamStatus: number;
  readonly relayed: RelayedError | undefined;

  constructor(
    leg: string,
    upstreamStatus: number,
    details: ErrorDetails & {
      headers?: readonly string[];
      relayed?: RelayedError;
      gatewayFault?: GatewayFault | undefined;
    } = {},
  ) {
    const { gatewayFault } = details;
    super(
      gatewayFault
        ? `${leg}: ${gatewayFaults[gatewayFault]} (HTTP ${upstreamStatus})`
        : `${leg}: upstream returned HTTP ${upstreamStatus}`,
      details,
    );
    this.code = gatewayFault ?? 'UPSTREAM_ERROR';
    this.upstreamStatus = upstreamStatus;
    const isKept = (upstreamStatus >= 400 && upstreamStatus < 500) || upstreamStatus === 503;
    this.status = isKept ? upstreamStatus : 502;
    this.headers = details.headers ?? [];
    this.relayed = details.relayed;
  }
}

const transportCodes = {
  connect: 'UPSTREAM_UNREACHABLE',
  reset: 'UPSTREAM_UNREACHABLE',
  timeout: 'UPSTREAM_TIMEOUT',
  'answer-too-large': 'UPSTREAM_ANSWER_TOO_LARGE',
  'answer-undecodable': 'UPSTREAM_ANSWER_UNDECODABLE',
} as const satisfies Record<TransportFault, string>;

/** An upstream gave no answer that counts: unreachable, too slow, cut off, too large or not to be unpacked. */
export class UpstreamTransportError extends CoordinatorError {
  override readonly name = 'UpstreamTransportError';
  override readonly code: (typeof transportCodes)[TransportFault];
  override readonly status: 502 | 504;

  constructor(leg: string, cause: TransportError) {
    super(`${leg}: ${cause.message}`, { cause });
    this.code = transportCodes[cause.fault];
    this.status = cause.fault === 'timeout' ? 504 : 502;
  }
}

/** An upstream answered 200 with something that is not what its API promises. */
export class BadUpstreamAnswerError extends CoordinatorError {
  override readonly name = 'BadUpstreamAnswerError';
  override readonly code = 'UPSTREAM_ANSWER_INVALID';
  override readonly status = 502;

  constructor(leg: string, what: string, options?: ErrorOptions) {
    super(`${leg}: ${what}`, options);
  }
}

/** The answer has reached the client, whole or in part; nothing more can be said to it. */
export class ResponseStartedError extends CoordinatorError {
  override readonly name = 'ResponseStartedError';
  override readonly code = 'RESPONSE_STARTED';
  /** The worker's status; 0 when the worker broke off. */
  override readonly status: number;

  constructor(leg: string, status: number, options?: ErrorOptions) {
    super(
      status === 0
        ? `${leg}: the answer broke off after it had started`
        : `${leg}: the worker's HTTP ${status} was passed on`,
      options,
    );
    this.status = status;
  }
}

/** Statuses and types of ends that a queued request can have without a worker's answer; others are 502. */
const outcomes: Partial<Record<OutcomeError['code'], { status: number; type: string }>> = {
  GATE_DROPPED: { status: 429, type: 'rate_limit_error' },
  DEADLINE_EXCEEDED: { status: 504, type: 'timeout_error' },
  INVALID_REQUEST: { status: 400, type: 'invalid_request_error' },
  CANCELLED: { status: 499, type: 'cancelled' },
};

/** A queued request ended without an answer of a worker (async-broker.md 1.6). */
export class OutcomeError extends CoordinatorError {
  override readonly name = 'OutcomeError';
  override readonly status: number;
  override readonly type: string;
  override readonly code:
    | 'GATE_DROPPED'
    | 'DEADLINE_EXCEEDED'
    | 'INVALID_REQUEST'
    | 'CANCELLED'
    | 'INFERENCE_ERROR'
    | 'GATE_ERROR'
    | 'MALFORMED_RESULT';

  constructor(code: OutcomeError['code'], message: string, details?: ErrorDetails) {
    super(message, details);
    const { status, type } = outcomes[code] ?? { status: 502, type: 'api_error' };
    this.code = code;
    this.status = status;
    this.type = type;
  }
}

/** The client has left; nobody reads an answer. 499 is for logs and metrics. */
export class ClientGoneError extends CoordinatorError {
  override readonly name = 'ClientGoneError';
  override readonly code = 'CLIENT_GONE';
  override readonly status = 499;

  constructor() {
    super('the client closed the connection');
  }
}

/** The answer took longer than `server.write_timeout`. */
export class AnswerTimeoutError extends CoordinatorError {
  override readonly name = 'AnswerTimeoutError';
  override readonly code = 'ANSWER_TIMEOUT';
  override readonly status = 504;

  constructor(limitMs: number) {
    super(`no whole answer within ${limitMs} ms (server.write_timeout)`);
  }
}

/** A fault of ours; the cause is in the log. */
export class InternalError extends CoordinatorError {
  override readonly name = 'InternalError';
  override readonly code = 'INTERNAL_ERROR';
  override readonly status = 500;

  constructor(cause: unknown) {
    super('internal error', { cause });
  }
}

/** An error of a media fetcher, recognised by its shape: the fetcher may run in another package. */
interface MediaFault {
  readonly code: string;
  readonly stepStatus: number;
  readonly safeMessage: string;
  /** Position among the references that were given together. */
  readonly index?: number | undefined;
  /** What the origin answered, where that is the fault. */
  readonly originStatus?: number | undefined;
  /** The rule that a redirect broke. */
  readonly causeCode?: string | undefined;
}

/** A media reference that could not be turned into bytes. */
export class MediaRefusedError extends CoordinatorError {
  override readonly name = 'MediaRefusedError';
  override readonly code: string;
  override readonly status: number;
  override readonly headers: readonly string[];

  /** `status` takes the place of the fault's own. */
  constructor(fault: MediaFault, details: ErrorDetails, status: number = fault.stepStatus) {
    super(details.param ? `${details.param}: ${fault.safeMessage}` : fault.safeMessage, details);
    this.code = fault.code;
    this.status = status;
    this.headers = fault.stepStatus === 503 ? ['retry-after', '1'] : [];
  }
}

/** Whether an error comes from a media fetcher. */
export function isMediaFault(error: unknown): error is MediaFault {
  return (
    error instanceof Error &&
    'stepStatus' in error &&
    typeof error.stepStatus === 'number' &&
    'safeMessage' in error &&
    typeof error.safeMessage === 'string' &&
    'code' in error &&
    typeof error.code === 'string'
  );
}

/** Brings whatever a step threw into one of the classes above. */
export function toCoordinatorError(error: unknown, step: string): CoordinatorError {
  let known: CoordinatorError;
  if (error instanceof CoordinatorError) known = error;
  else if (error instanceof TransportError) known = new UpstreamTransportError(step, error);
  else known = new InternalError(error);
  known.step ??= step;
  return known;
}
