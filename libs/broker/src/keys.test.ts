import { describe, expect, it } from '@jest/globals';
import {
  idempotencyKey,
  jobIdOf,
  laneAnchorKey,
  laneOpenKey,
  lanePrefix,
  laneProbeKey,
  memberOf,
  parseJobId,
  parseMember,
  recordKeys,
} from './keys.ts';
import { isLaneName, isRequestId, tenantProblem } from './names.ts';

/** What Redis hashes of a key. */
const tagOf = (key: string): string | undefined => /\{([^}]+)\}/.exec(key)?.[1];

describe('4.3 keys', () => {
  it.each(['team-a', 'tëam ✓', '~}{', 'a~b~c'])('survive the tenant %j', (tenant) => {
    const ref = { tenant, id: 'job-1', generation: '0a1b2c3d' };
    expect(parseMember(memberOf(ref))).toEqual(ref);
    expect(parseJobId(jobIdOf(ref), 'a')).toEqual({ ...ref, lane: 'a' });
    expect(new Set(recordKeys(ref).map(tagOf)).size).toBe(1);
    expect(tagOf(recordKeys(ref)[0])).not.toContain('job-2');
  });

  it('keep a lane in one slot', () => {
    const keys = [lanePrefix('a'), laneOpenKey('a'), laneAnchorKey('a'), laneProbeKey('a')];
    expect(keys.map(tagOf)).toEqual(keys.map(() => 'ab:a'));
  });

  it('never hold a colon in a job id, nor begin with a digit or - (P1, P2, P3)', () => {
    for (const id of ['123', '-5', '0', 'meta', 'active']) {
      expect(jobIdOf({ tenant: 'a:b', id, generation: '00000000' })).toMatch(/^r~[^:]+$/);
    }
  });

  it.each(['', 'x', 'meta', 'a~b', 'a~b~c~d', '~b~c'])('knows no member %j', (text) => {
    expect(parseMember(text)).toBeUndefined();
    expect(parseJobId(text, 'a')).toBeUndefined();
  });

  it('tells tenants and keys of idempotency apart, and shows neither', () => {
    expect(idempotencyKey('a', 'k')).not.toBe(idempotencyKey('b', 'k'));
    expect(idempotencyKey('a', 'k')).not.toBe(idempotencyKey('a', 'l'));
    expect(idempotencyKey('a', 'secret')).not.toContain('secret');
  });
});

describe('1.3 names', () => {
  it.each([
    ...[
      { id: 'a', is: true },
      { id: 'A-9', is: true },
      { id: 'a'.repeat(128), is: true },
    ],
    ...[
      { id: '', is: false },
      { id: 'job_42', is: false },
      { id: 'a'.repeat(129), is: false },
    ],
    ...[
      { id: 'bad*id', is: false },
      { id: 'a\n', is: false },
      { id: 'ä', is: false },
    ],
  ])('$id: $is', ({ id, is }) => {
    expect(isRequestId(id)).toBe(is);
  });

  it.each([
    { tenant: 'tëam', problem: undefined },
    { tenant: 'ä'.repeat(64), problem: undefined },
    { tenant: '', problem: 'is empty' },
    { tenant: 'a:b', problem: 'contains a colon' },
    { tenant: 'a\u0000', problem: 'contains a control character' },
    { tenant: '\ud800', problem: 'is not valid Unicode' },
    { tenant: 'ä'.repeat(65), problem: 'has 130 bytes, the limit is 128' },
  ])('1.4 rule 5: tenant $tenant', ({ tenant, problem }) => {
    expect(tenantProblem(tenant)).toBe(problem);
  });

  it('4.3 lanes', () => {
    expect(['a', 'overflow-batch-2', 'a'.repeat(48)].map(isLaneName)).toEqual([true, true, true]);
    expect(['', 'A', 'a:b', 'a'.repeat(49)].map(isLaneName)).toEqual([false, false, false, false]);
  });
});
