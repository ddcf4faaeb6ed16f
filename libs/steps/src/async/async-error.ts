import { BadRequestError, CoordinatorError, type ErrorDetails } from '@llm-d/pipeline';

/** A client's mistake about a queued request; nothing was enqueued. */
export function invalidRequest(message: string, details: ErrorDetails = {}): BadRequestError {
  return new BadRequestError(message, { ...details, code: 'INVALID_REQUEST' });
}

/** Why a request could not be queued, fetched or deleted although nothing is wrong with it (1.5). */
export class AsyncError extends CoordinatorError {
  override readonly name = 'AsyncError';
  override readonly status: number;
  override readonly code: string;
  override readonly type: string | undefined;
  override readonly headers: readonly string[];

  constructor(
    message: string,
    details: ErrorDetails & {
      status: number;
      code: string;
      type?: string;
      retryAfterSeconds?: number;
    },
  ) {
    super(message, details);
    this.status = details.status;
    this.code = details.code;
    this.type = details.type;
    this.headers =
      details.retryAfterSeconds === undefined
        ? []
        : ['retry-after', String(details.retryAfterSeconds)];
  }
}
