import { errorBody, OutcomeError } from '@llm-d/pipeline';
import { describe, expect, it } from '@jest/globals';
import { outcomeAnswer, pendingAnswer } from './answers.ts';

const response = (status: number, body = '{"a" : 1}') =>
  ({ kind: 'response', status, contentType: 'text/x', body: Buffer.from(body) }) as const;

function failureOf(work: () => unknown): OutcomeError {
  try {
    work();
  } catch (error) {
    if (error instanceof OutcomeError) return error;
  }
  throw new Error('no OutcomeError');
}

describe('a stored outcome as an answer (1.6)', () => {
  it.each([200, 201, 404, 500, 599])('mirrors %i with its bytes and type', (status) => {
    const answer = outcomeAnswer(response(status));
    expect(answer).toMatchObject({
      status,
      headers: ['content-type', 'text/x', 'content-length', '9'],
    });
    expect(answer.body?.toString()).toBe('{"a" : 1}');
  });

  it('calls an answer without a type JSON', () => {
    const { kind, status, body } = response(200);
    expect(outcomeAnswer({ kind, status, body }).headers).toContain('application/json');
  });

  it('has no body where HTTP allows none', () => {
    expect(outcomeAnswer(response(204))).toEqual({ status: 204, headers: [] });
  });

  it.each([
    { name: 'C14 C33 status 42', status: 42 },
    { name: 'status 600', status: 600 },
    { name: 'status 0', status: 0 },
    { name: 'a broken status', status: 200.5 },
    { name: 'status 100, which announces an answer', status: 100 },
  ])('is 502 MALFORMED_RESULT for $name', ({ status }) => {
    const error = failureOf(() => outcomeAnswer(response(status)));
    expect(error).toMatchObject({ status: 502, code: 'MALFORMED_RESULT', type: 'api_error' });
  });

  it.each([
    { code: 'GATE_DROPPED', status: 429, type: 'rate_limit_error' },
    { code: 'DEADLINE_EXCEEDED', status: 504, type: 'timeout_error' },
    { code: 'INVALID_REQUEST', status: 400, type: 'invalid_request_error' },
    { code: 'CANCELLED', status: 499, type: 'cancelled' },
    { code: 'INFERENCE_ERROR', status: 502, type: 'api_error' },
    { code: 'GATE_ERROR', status: 502, type: 'api_error' },
    // A newer worker may write one that is not known here.
    { code: 'WHATEVER' as 'GATE_ERROR', status: 502, type: 'api_error' },
  ] as const)(
    'C15 C35 is $status for $code, with the code in the body',
    ({ code, status, type }) => {
      const error = failureOf(() => outcomeAnswer({ kind: 'error', code, message: 'why' }));
      expect(error.status).toBe(status);
      expect(errorBody(error, 'id')).toMatchObject({ error: { code, type } });
    },
  );
});

it('a pending request is told by its id and where to ask', () => {
  const { status, headers, body } = pendingAnswer('a-1');
  expect(status).toBe(202);
  expect(body?.toString()).toBe('{"id":"a-1","status":"pending"}');
  expect(headers).toContain('/v1/requests/a-1');
});
