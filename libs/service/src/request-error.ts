import { CoordinatorError, type ErrorDetails } from '@llm-d/pipeline';

/**
 * A request that ends at the edge of a service: unknown path, wrong method, a body that is too
 * large, too slow or cut off, or a refusal by a handler. Its message is written for the client.
 */
export class RequestError extends CoordinatorError {
  override readonly name = 'RequestError';
  override readonly status: number;
  override readonly code: string;
  override readonly headers: readonly string[];
  /** Body bytes that had come when reading it failed. */
  receivedBytes = 0;

  constructor(
    status: number,
    code: string,
    message: string,
    details: ErrorDetails & { headers?: readonly string[] } = {},
  ) {
    super(message, details);
    this.status = status;
    this.code = code;
    this.headers = details.headers ?? [];
  }
}
