/** A refused request or template: HTTP status, error type and parameter in the spelling of vLLM's error object. */
export class RenderError extends Error {
  override readonly name = 'RenderError';
  readonly status: number;
  readonly type: string;
  readonly param: string | null;
  /** True when vLLM may be able to do what is refused here. */
  isGap = false;

  constructor(
    status: number,
    type: string,
    message: string,
    param: string | null = null,
    options?: ErrorOptions,
  ) {
    super(message, options);
    this.status = status;
    this.type = type;
    this.param = param;
  }
}

/** 400 for a request that is well formed but means nothing we can render, and for a template that raises. */
export function badRequest(
  message: string,
  param: string | null = null,
  options?: ErrorOptions,
): RenderError {
  return new RenderError(400, 'BadRequestError', message, param, options);
}

/** 400 for a body that fails its schema; `location` is the path of the field, such as `body.messages`. */
export function invalidField(location: string, message: string): RenderError {
  return new RenderError(
    400,
    'Bad Request',
    `1 validation error:\n  ${location}: ${message}`,
    location,
  );
}

/** 501 for what a vLLM renderer may know and this one does not; names the construct or field. */
export function notImplemented(what: string, param: string | null = null): RenderError {
  return asGap(
    new RenderError(
      501,
      'NotImplementedError',
      `${what} is not supported by the embedded renderer`,
      param,
    ),
  );
}

/** Marks a refusal that a vLLM render server may not share. */
export function asGap(error: RenderError): RenderError {
  error.isGap = true;
  return error;
}

/** 503 for work that we would do at a quieter time. */
export function overloaded(message: string): RenderError {
  return new RenderError(503, 'ServiceUnavailableError', message);
}

/** 404 for a model that is not served here; the message lists the names that are. */
export function unknownModel(model: string, known: readonly string[]): RenderError {
  return new RenderError(
    404,
    'NotFoundError',
    `The model \`${model}\` does not exist. Valid aliases: ${known.join(', ')}.`,
    'model',
  );
}
