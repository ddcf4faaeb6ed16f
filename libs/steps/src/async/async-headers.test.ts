import { describe, expect, it } from '@jest/globals';
import {
  type AsyncHeaderNames,
  readIdempotencyKey,
  readMode,
  readTenant,
  readTimeoutSeconds,
  tenantHeaderValue,
} from './async-headers.ts';
import { isIdReplaced, isRequestId } from './request-id.ts';

const names: AsyncHeaderNames = {
  mode: ['x-llm-d-async-mode', 'x-ap-mode'],
  tenant: ['x-llm-d-tenant', 'x-team'],
  timeout: ['x-llm-d-request-timeout-seconds', 'x-request-timeout-seconds'],
};
const invalid = (message: RegExp) =>
  expect.objectContaining({
    status: 400,
    code: 'INVALID_REQUEST',
    message: expect.stringMatching(message),
  });
const thrownBy = (work: () => unknown): unknown => {
  try {
    return { returned: work() };
  } catch (error) {
    return error;
  }
};
/** Bytes as Node reads them from a header. */
const asRead = (text: string): string => Buffer.from(text).toString('latin1');

describe('the mode (1.1, 1.2)', () => {
  it.each([
    { name: 'C5 no header', headers: [], mode: undefined },
    { name: 'an empty header', headers: ['X-AP-Mode', ''], mode: undefined },
    { name: 'the old header', headers: ['X-AP-Mode', 'enqueue'], mode: 'enqueue' },
    { name: 'the new header', headers: ['x-llm-d-async-mode', 'wait'], mode: 'wait' },
    { name: 'other letters', headers: ['X-LLM-D-Async-Mode', 'PassThrough'], mode: 'passthrough' },
    {
      name: 'both generations that agree but for their letters',
      headers: ['x-ap-mode', 'WAIT', 'x-llm-d-async-mode', 'wait'],
      mode: 'wait',
    },
    {
      name: 'one of both empty',
      headers: ['x-ap-mode', 'enqueue', 'x-llm-d-async-mode', ''],
      mode: 'enqueue',
    },
  ])('$name gives $mode', ({ headers, mode }) => {
    expect(readMode(headers, names)).toBe(mode);
  });

  it.each([
    {
      name: 'C6 an unknown mode',
      headers: ['X-AP-Mode', 'sideways'],
      message: /^unknown x-ap-mode value/,
    },
    {
      name: 'a mode with blanks inside',
      headers: ['x-llm-d-async-mode', 'wait wait'],
      message: /^unknown x-llm-d-async-mode value/,
    },
    {
      name: 'two generations that disagree',
      headers: ['X-AP-Mode', 'enqueue', 'x-llm-d-async-mode', 'wait'],
      message: /different values/,
    },
    {
      name: 'one header twice with two modes',
      headers: ['x-ap-mode', 'enqueue', 'x-ap-mode', 'wait'],
      message: /different values/,
    },
  ])('$name is 400', ({ headers, message }) => {
    expect(thrownBy(() => readMode(headers, names))).toEqual(invalid(message));
  });
});

describe('the tenant (1.2, 1.4 rule 5)', () => {
  it.each([
    { name: 'no header', headers: [], tenant: 'default' },
    { name: 'the old header', headers: ['X-Team', 'team-a'], tenant: 'team-a' },
    { name: 'the new header', headers: ['X-LLM-D-Tenant', 'team-a'], tenant: 'team-a' },
    { name: 'both, equal', headers: ['x-team', 'a', 'x-llm-d-tenant', 'a'], tenant: 'a' },
    { name: 'UTF-8', headers: ['x-team', asRead('größe-東')], tenant: 'größe-東' },
    { name: '128 bytes', headers: ['x-team', 'a'.repeat(128)], tenant: 'a'.repeat(128) },
  ])('$name is $tenant', ({ headers, tenant }) => {
    expect(readTenant(headers, names)).toBe(tenant);
  });

  it.each([
    { name: 'C9 a colon', headers: ['x-team', 'a:b'], message: /colon/ },
    {
      name: 'two generations that disagree',
      headers: ['x-team', 'a', 'x-llm-d-tenant', 'b'],
      message: /different values/,
    },
    { name: 'two of one', headers: ['x-team', 'a', 'x-team', 'A'], message: /different values/ },
    { name: '129 bytes', headers: ['x-team', asRead('ö'.repeat(65))], message: /130 bytes/ },
    { name: 'a control character', headers: ['x-team', 'a\tb'], message: /control character/ },
    { name: 'bytes that are no UTF-8', headers: ['x-team', '\xff'], message: /UTF-8/ },
  ])('with $name is 400', ({ headers, message }) => {
    expect(thrownBy(() => readTenant(headers, names))).toEqual(invalid(message));
  });

  it('goes back into a header as the bytes that it came as', () => {
    expect(tenantHeaderValue('größe')).toBe(asRead('größe'));
  });
});

describe('the deadline (1.2, 1.7)', () => {
  it.each([
    { value: '120', seconds: 120 },
    { value: '+5', seconds: 5 },
    { value: '0', seconds: undefined },
    { value: '-5', seconds: undefined },
    { value: '1.5', seconds: undefined },
    { value: '1e3', seconds: undefined },
    { value: 'soon', seconds: undefined },
    { value: '999999999999', seconds: 999_999_999_999 },
    { value: '9999999999999', seconds: Number.POSITIVE_INFINITY },
    { value: '9'.repeat(400), seconds: Number.POSITIVE_INFINITY },
    { value: '00000000000000000060', seconds: 60 },
  ])('of $value is $seconds', ({ value, seconds }) => {
    expect(readTimeoutSeconds(['X-Request-Timeout-Seconds', value], names)).toBe(seconds);
  });

  it('is 400 when both generations name one that differs', () => {
    const headers = ['x-request-timeout-seconds', '5', 'x-llm-d-request-timeout-seconds', '6'];
    expect(thrownBy(() => readTimeoutSeconds(headers, names))).toEqual(invalid(/different values/));
  });
});

describe('ids (1.3)', () => {
  it.each(['a', 'A-9', 'meta', 'active', 'wait', 'events', 'completed', '-5', '123', '0'])(
    '%s is one',
    (id) => {
      expect(isRequestId(id)).toBe(true);
    },
  );

  it.each(['', 'job_42', 'bad*id', 'a b', 'a:b', 'ö', 'a'.repeat(129)])('%s is none', (id) => {
    expect(isRequestId(id)).toBe(false);
  });

  it.each([
    { name: 'none was sent', headers: [], isReplaced: false },
    { name: 'it is the one that was sent', headers: ['X-Request-Id', 'a'], isReplaced: false },
    { name: 'another was sent', headers: ['x-request-id', 'job_42'], isReplaced: true },
  ])('are replaced or not when $name', ({ headers, isReplaced }) => {
    expect(isIdReplaced(headers, 'a')).toBe(isReplaced);
  });
});

describe('the idempotency key (issue 7, item 5)', () => {
  it('is the value of its header', () => {
    expect(readIdempotencyKey(['Idempotency-Key', 'order 7'])).toBe('order 7');
    expect(readIdempotencyKey([])).toBeUndefined();
  });

  it.each([
    { name: 'two keys', headers: ['idempotency-key', 'a', 'idempotency-key', 'b'] },
    { name: '256 characters', headers: ['idempotency-key', 'a'.repeat(256)] },
    { name: 'other bytes than ASCII', headers: ['idempotency-key', asRead('ö')] },
  ])('with $name is 400', ({ headers }) => {
    expect(thrownBy(() => readIdempotencyKey(headers))).toEqual(invalid(/idempotency-key/));
  });
});
