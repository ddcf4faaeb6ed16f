import { type CoordinatorError, UpstreamError } from './errors.ts';

/** A whole answer for a failed request. */
export interface ErrorResponse {
  readonly status: number;
  /** Names and values in turn, with content type and length. */
  readonly headers: readonly string[];
  readonly body: Buffer;
}

const typesByStatus: Partial<Record<number, string>> = {
  401: 'authentication_error',
  403: 'permission_error',
  404: 'not_found_error',
  429: 'rate_limit_error',
};

/** The `type` that OpenAI clients expect with a status. */
export function errorType(status: number): string {
  const isClientFault = status >= 400 && status < 500;
  return typesByStatus[status] ?? (isClientFault ? 'invalid_request_error' : 'server_error');
}

/** The error object that clients of the OpenAI API read. */
export function errorBody(error: CoordinatorError, requestId: string): { error: object } {
  const relayed = error instanceof UpstreamError ? error.relayed : undefined;
  return {
    error: {
      message: relayed?.message ?? `${error.message} (request_id: ${requestId})`,
      type: relayed?.type ?? error.type ?? errorType(error.status),
      param: relayed ? relayed.param : (error.param ?? null),
      code: error.code,
      step: error.step,
      request_id: requestId,
    },
  };
}

/** An error as the last event of a stream; its status stands in the event, as that of the answer is out. */
export function errorEvent(error: CoordinatorError, requestId: string): Buffer {
  const { error: told } = errorBody(error, requestId);
  return Buffer.from(`data: ${JSON.stringify({ error: { ...told, status: error.status } })}\n\n`);
}

/** The answer for an error, as long as nothing was sent. */
export function toErrorResponse(error: CoordinatorError, requestId: string): ErrorResponse {
  const body = Buffer.from(JSON.stringify(errorBody(error, requestId)));
  return {
    status: error.status,
    headers: [
      ...['content-type', 'application/json', 'content-length', String(body.length)],
      ...error.headers,
    ],
    body,
  };
}
