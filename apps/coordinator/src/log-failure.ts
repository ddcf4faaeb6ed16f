import {
  type CoordinatorError,
  InternalError,
  type Logger,
  OutcomeError,
  ResponseStartedError,
} from '@llm-d/pipeline';

/** Faults of the queue come with every request as long as they last; the queue tells of them in its own pace. */
const toldElsewhere: readonly string[] = ['ENQUEUE_FAILED', 'LOOKUP_FAILED', 'DELETE_FAILED'];

/** A client that leaves is nobody's fault. A fault of ours comes with its stack; what an upstream did wrong needs none. */
export function logFailure(error: CoordinatorError, log: Logger): void {
  const { code, step, status, cause } = error;
  const isTold = toldElsewhere.includes(code) || error instanceof OutcomeError;
  if (code === 'CLIENT_GONE' || isTold) log.verbose?.({ code, step }, error.message);
  const isBroken = error instanceof ResponseStartedError && status === 0;
  if (isTold || (status < 500 && !isBroken)) return;
  const details =
    error instanceof InternalError || !(cause instanceof Error)
      ? { err: cause }
      : { cause: cause.message };
  log.error({ code, step, ...details }, error.message);
}
