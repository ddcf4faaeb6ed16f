import { OutcomeError, type QueuedOutcome, type WholeAnswer } from '@llm-d/pipeline';
import { AsyncError } from './async-error.ts';

const json = 'application/json';

/** An answer of our own. */
export function jsonAnswer(
  status: number,
  value: unknown,
  headers: readonly string[] = [],
): WholeAnswer {
  const body = Buffer.from(JSON.stringify(value));
  return {
    status,
    headers: ['content-type', json, 'content-length', String(body.length), ...headers],
    body,
  };
}

/** 202: the request is queued, waits for a retry, or runs. */
export function pendingAnswer(id: string): WholeAnswer {
  const found = ['location', `/v1/requests/${id}`, 'retry-after', '1'];
  return jsonAnswer(202, { id, status: 'pending' }, found);
}

/**
 * A stored outcome as the answer to a client (1.6).
 *
 * @throws OutcomeError when it is no answer of a worker, or one that cannot be written.
 */
export function outcomeAnswer(outcome: QueuedOutcome): WholeAnswer {
  if (outcome.kind === 'error') throw new OutcomeError(outcome.code, outcome.message);
  const { status, contentType = json, body } = outcome;
  // A status below 200 announces an answer and cannot be one.
  if (!Number.isInteger(status) || status < 200 || status > 599) {
    throw new OutcomeError('MALFORMED_RESULT', 'the stored result has no valid status');
  }
  if (status === 204 || status === 304) return { status, headers: [] };
  return {
    status,
    headers: ['content-type', contentType, 'content-length', String(body.length)],
    body,
  };
}

/** One answer for ids that never existed, are another tenant's, have expired or were deleted; upstream's is 410. */
export function unknownRequest({
  compat_status: isCompat,
}: {
  compat_status: boolean;
}): AsyncError {
  return new AsyncError('no such request: the id is unknown, has expired or was deleted', {
    status: isCompat ? 410 : 404,
    code: 'UNKNOWN_REQUEST',
    type: 'invalid_request_error',
  });
}
