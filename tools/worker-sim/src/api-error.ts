const typeOf: Record<number, string> = {
  400: 'BadRequestError',
  401: 'AuthenticationError',
  403: 'PermissionDeniedError',
  404: 'NotFoundError',
  422: 'UnprocessableEntityError',
  429: 'RateLimitError',
};

/** vLLM's error object, the body of every refusal. */
export interface ErrorBody {
  error: { message: string; type: string; param: string | null; code: number };
}

/** A refusal with the HTTP status a real engine answers; the message goes to the caller as it is. */
export class ApiError extends Error {
  override readonly name = 'ApiError';
  readonly status: number;
  readonly param: string | null;
  readonly headers: Readonly<Record<string, string>>;
  readonly #type: string | undefined;

  constructor(
    status: number,
    message: string,
    options: { param?: string | null; type?: string; headers?: Record<string, string> } = {},
  ) {
    super(message);
    this.#type = options.type;
    this.status = status;
    this.param = options.param ?? null;
    this.headers = options.headers ?? {};
  }

  /** The body of the answer, in vLLM's shape. */
  get body(): ErrorBody {
    const type =
      this.#type ??
      typeOf[this.status] ??
      (this.status >= 500 ? 'InternalServerError' : 'BadRequestError');
    return { error: { message: this.message, type, param: this.param, code: this.status } };
  }
}

/** 400 with the field that is to blame. */
export const badField = (param: string, message: string): ApiError =>
  new ApiError(400, message, { param });
