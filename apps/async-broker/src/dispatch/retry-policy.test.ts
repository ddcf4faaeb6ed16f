import { describe, expect, it } from '@jest/globals';
import { type Attempt, type Fault } from './attempt.ts';
import { decide, type RetryMoment, retryDelayMs } from './retry-policy.ts';

const answer = (status: number): Attempt => ({
  status,
  contentType: 'application/json',
  body: Buffer.from('{}'),
  retryAfter: undefined,
  droppedReason: undefined,
});
const ours = { retriesConnectErrors: true };

describe('the class of an answer (3.4)', () => {
  it.each([
    { status: 200, kind: 'store' },
    { status: 302, kind: 'store' },
    { status: 429, kind: 'retry' },
    { status: 400, kind: 'store' },
    { status: 404, kind: 'store' },
    { status: 422, kind: 'store' },
    { status: 408, kind: 'retry' },
    { status: 425, kind: 'retry' },
    { status: 500, kind: 'retry' },
    { status: 503, kind: 'retry' },
  ])('$status: $kind', ({ status, kind }) => {
    expect(decide(answer(status), ours).kind).toBe(kind);
  });

  it.each<{ fault: Fault; rules: string; retriesConnectErrors: boolean; expected: object }>([
    { fault: 'connect', rules: 'ours', retriesConnectErrors: true, expected: { kind: 'retry' } },
    {
      fault: 'connect',
      rules: 'of upstream',
      retriesConnectErrors: false,
      expected: { kind: 'fail', code: 'INFERENCE_ERROR' },
    },
    { fault: 'broken', rules: 'ours', retriesConnectErrors: true, expected: { kind: 'retry' } },
    {
      fault: 'too-large',
      rules: 'ours',
      retriesConnectErrors: true,
      expected: { kind: 'fail', code: 'INFERENCE_ERROR' },
    },
    {
      fault: 'deadline',
      rules: 'ours',
      retriesConnectErrors: true,
      expected: { kind: 'fail', code: 'DEADLINE_EXCEEDED' },
    },
    {
      fault: 'attempt-timeout',
      rules: 'ours',
      retriesConnectErrors: true,
      expected: { kind: 'fail', code: 'DEADLINE_EXCEEDED' },
    },
    { fault: 'shutdown', rules: 'ours', retriesConnectErrors: true, expected: { kind: 'requeue' } },
    { fault: 'cancelled', rules: 'ours', retriesConnectErrors: true, expected: { kind: 'drop' } },
    { fault: 'lock-lost', rules: 'ours', retriesConnectErrors: true, expected: { kind: 'drop' } },
  ])('$fault, rules $rules', ({ fault, retriesConnectErrors, expected }) => {
    expect(decide({ fault }, { retriesConnectErrors })).toMatchObject(expected);
  });
});

describe('the pause before a retry (3.4)', () => {
  const moment: RetryMoment = {
    retry: 1,
    remainingMs: 3_600_000,
    retryAfter: undefined,
    nowMs: Date.parse('2026-01-01T00:00:00Z'),
    random: 0,
  };

  it.each([
    { name: 'the first, shortest', change: {}, expected: 2_000 },
    { name: 'the first, longest', change: { random: 0.99999 }, expected: 4_000 },
    { name: 'the second', change: { retry: 2 }, expected: 4_000 },
    { name: 'the fourth', change: { retry: 4 }, expected: 16_000 },
    { name: 'never over a minute', change: { retry: 60, random: 0.99999 }, expected: 60_000 },
    { name: 'within what is left', change: { retry: 5, remainingMs: 6_000 }, expected: 3_000 },
    { name: 'no time left', change: { remainingMs: -5 }, expected: 250 },
    { name: 'no burst before the deadline', change: { remainingMs: 100 }, expected: 250 },
    { name: 'a longer Retry-After wins', change: { retryAfter: '30' }, expected: 30_000 },
    { name: 'a shorter Retry-After does not', change: { retryAfter: '1' }, expected: 2_000 },
    {
      name: 'Retry-After takes half of the time at most',
      change: { retryAfter: '900', remainingMs: 100_000 },
      expected: 50_000,
    },
    {
      name: 'Retry-After gets a quarter of jitter',
      change: { retryAfter: '40', random: 0.5 },
      expected: 45_000,
    },
    {
      name: 'Retry-After as a date',
      change: { retryAfter: 'Thu, 01 Jan 2026 00:00:20 GMT' },
      expected: 20_000,
    },
    {
      name: 'a date that has passed',
      change: { retryAfter: 'Wed, 31 Dec 2025 00:00:20 GMT' },
      expected: 2_000,
    },
    { name: 'nonsense', change: { retryAfter: 'soon' }, expected: 2_000 },
    { name: 'a negative number', change: { retryAfter: '-5' }, expected: 2_000 },
  ])('$name', ({ change, expected }) => {
    expect(retryDelayMs({ ...moment, ...change })).toBe(expected);
  });
});
