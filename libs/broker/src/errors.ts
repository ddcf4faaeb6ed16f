import { type RedisErrorKind } from '@llm-d/redis';

/**
 * Redis did not do what was asked: gone, too slow, full, or it answered with an error. After `timeout` the
 * work may still have been done; a repetition is safe. The text holds no keys, values or credentials.
 */
export class BrokerUnavailableError extends Error {
  override readonly name = 'BrokerUnavailableError';
  readonly kind: RedisErrorKind;
  readonly retryAfterSeconds: number;
  /** Of a submission, which may have been taken: to be told to the client, who fetches or repeats by it. */
  readonly id: string | undefined;

  constructor(
    kind: RedisErrorKind,
    text: string,
    details?: { id?: string; retryAfterSeconds?: number },
  ) {
    super(text);
    this.kind = kind;
    this.id = details?.id;
    this.retryAfterSeconds = details?.retryAfterSeconds ?? 1;
  }
}

/** A name that cannot be one (tenant, id, lane). The message says which and why, never the value. */
export class BrokerInputError extends Error {
  override readonly name = 'BrokerInputError';
  readonly code = 'INVALID_REQUEST';
}
