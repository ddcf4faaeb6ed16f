import { expect, it } from '@jest/globals';
import { feedbackOf } from './feedback.ts';

it.each([
  { status: 200, reason: undefined, expected: 'accepted' },
  { status: 429, reason: undefined, expected: 'saturated' },
  { status: 429, reason: 'rejected-saturated', expected: 'saturated' },
  { status: 503, reason: 'rejected-saturated', expected: 'saturated' },
  { status: 503, reason: 'rejected-ttl-expired', expected: 'expired' },
  { status: 503, reason: 'evicted-by-priority', expected: 'neutral' },
  { status: 429, reason: 'evicted', expected: 'neutral' },
  { status: 500, reason: undefined, expected: 'neutral' },
  { status: 404, reason: undefined, expected: 'neutral' },
])('$status with the reason $reason is $expected (aimd of 3.3)', ({ status, reason, expected }) => {
  const answer = { status, contentType: undefined, body: Buffer.alloc(0), retryAfter: undefined };
  expect(feedbackOf({ ...answer, droppedReason: reason })).toBe(expected);
});
it('a call without an answer says nothing of capacity', () => {
  expect(feedbackOf({ fault: 'connect' })).toBe('neutral');
});
