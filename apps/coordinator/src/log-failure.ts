import {
  type CoordinatorError,
  InternalError,
  type Logger,
  ResponseStartedError,
} from '@llm-d/pipeline';

/** A client that leaves is nobody's fault. A fault of ours comes with its stack; what an upstream did wrong needs none. */
export function logFailure(error: CoordinatorError, log: Logger): void {
  const { code, step, status, cause } = error;
  if (code === 'CLIENT_GONE') log.verbose?.({ code, step }, error.message);
  const isBroken = error instanceof ResponseStartedError && status === 0;
  if (status < 500 && !isBroken) return;
  const details =
    error instanceof InternalError || !(cause instanceof Error)
      ? { err: cause }
      : { cause: cause.message };
  log.error({ code, step, ...details }, error.message);
}
