import {
  BadRequestError,
  ClientGoneError,
  CoordinatorError,
  OutcomeError,
  ResponseStartedError,
  UpstreamError,
  UpstreamTransportError,
} from '@llm-d/pipeline';

/** Why a request or step failed, as the label `error_code`. `cancelled` is ours: the client left. */
export type ErrorCode =
  'bad_request' | 'upstream_4xx' | 'upstream_5xx' | 'upstream_transport' | 'internal' | 'cancelled';

/** Brings a failure into one of the codes; the order is that of coordinator.md 8.1. */
export function errorCode(error: unknown): ErrorCode {
  if (error instanceof ClientGoneError) return 'cancelled';
  // The failure is that of the run which ended so, not of the call that fetches it.
  if (error instanceof OutcomeError) return ofUpstreamStatus(error.status);
  if (hasBadRequest(error)) return 'bad_request';
  if (error instanceof UpstreamTransportError) return 'upstream_transport';
  if (error instanceof UpstreamError) return ofUpstreamStatus(error.upstreamStatus);
  if (error instanceof ResponseStartedError) return ofUpstreamStatus(error.status);
  if (!(error instanceof CoordinatorError)) return 'internal';
  // A media origin that failed answers 424: it is an upstream, and gave nothing that could be used.
  if (error.status === 424) return 'upstream_transport';
  if (error.status === 499) return 'cancelled';
  // What the edge refuses (too large, too slow, cut off) is the client's to mend.
  return error.status >= 400 && error.status < 500 ? 'bad_request' : 'internal';
}

function hasBadRequest(error: unknown): boolean {
  for (let link = error; link instanceof Error; link = link.cause) {
    if (link instanceof BadRequestError) return true;
  }
  return false;
}

function ofUpstreamStatus(status: number): ErrorCode {
  if (status === 0) return 'upstream_transport';
  if (status >= 400 && status < 500) return 'upstream_4xx';
  return status >= 500 ? 'upstream_5xx' : 'internal';
}
