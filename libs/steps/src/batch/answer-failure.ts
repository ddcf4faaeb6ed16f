import {
  BadRequestError,
  ClientGoneError,
  type CoordinatorError,
  errorEvent,
  type RequestContext,
  ResponseStartedError,
  type StepDependencies,
  toCoordinatorError,
  UpstreamError,
} from '@llm-d/pipeline';
import { relayedError } from '../relayed-error.ts';
import { type PromptAnswer } from './prompt-answer.ts';

/** The prompt of a batch that failed first, and what its worker answered. */
export interface BatchFailure {
  readonly index: number;
  readonly error: unknown;
  readonly answer: PromptAnswer & {
    /** An event of the worker that tells the failure. */
    readonly errorEvent?: Uint8Array | undefined;
  };
}

/**
 * Tells the client what went wrong with a batch where it cannot be told by a status: a worker's own error answer as it is,
 * or one error event after the events that are out. Returns the error that the batch has failed with.
 */
export function answerFailure(
  { sink, signal, requestId }: RequestContext,
  failure: BatchFailure,
  { upstreamErrors }: Pick<StepDependencies, 'upstreamErrors'>,
): unknown {
  const { error, answer } = failure;
  const isRefusal = error instanceof ResponseStartedError && error.status >= 400;
  if (!sink.isStarted) {
    if (!isRefusal) return explained(failure);
    sink.start(answer.status, answer.headers);
    sink.write(answer.body);
    sink.end();
    return error;
  }
  if (signal.reason instanceof ClientGoneError) {
    sink.abort();
    return error;
  }
  const known = isRefusal ? refusal(error, answer, upstreamErrors === 'relay') : explained(failure);
  sink.write(answer.errorEvent ?? errorEvent(known, requestId));
  sink.end(true);
  return known;
}

/** The error in its own words: which prompt is at fault, or what broke the answer off. */
function explained({ index, error }: BatchFailure): CoordinatorError {
  if (error instanceof BadRequestError) {
    const { code, status, step } = error;
    const param = `prompt[${index}]`;
    const about = error.message.startsWith(param) ? '' : `${param}: `;
    const named = new BadRequestError(about + error.message, { param, code, status, cause: error });
    named.step = step;
    return named;
  }
  if (!(error instanceof ResponseStartedError)) return toCoordinatorError(error, 'decode');
  return toCoordinatorError(error.cause, error.step ?? 'decode');
}

function refusal(
  { status, step }: ResponseStartedError,
  { body }: PromptAnswer,
  isRelayed: boolean,
): CoordinatorError {
  const relayed = isRelayed ? relayedError(status, body) : undefined;
  const error = new UpstreamError('decode', status, relayed ? { relayed } : {});
  error.step = step;
  return error;
}
