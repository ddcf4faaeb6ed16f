import { describe, expect, it } from '@jest/globals';
import { audit } from './audit.ts';
import { type Ran, type Told } from './journal.ts';

const told = (line: Partial<Told>): Told => ({
  ...{ at: 1_000, since: 990, n: 1, call: 'get', status: 200, says: 'outcome', hash: 'a' },
  ...line,
});
const accepted = told({ at: 100, since: 90, call: 'post', status: 202, says: 'pending' });
const about = { answered: [], broken: [], ordered: [], timeoutSeconds: 10, maxWakeUpMs: 100 };
const faultsOf = (lines: Told[], ran: Ran[] = [{ at: 500, n: 1 }]): readonly string[] =>
  audit({ ...about, told: lines, ran }).faults;

describe('the audit', () => {
  it('is content with a request that was accepted, ran, and has one outcome', () => {
    expect(faultsOf([accepted, told({}), told({ at: 1_200 })])).toEqual([]);
  });

  it('allows what was refused, and deleted requests without outcome', () => {
    const refused = told({ call: 'post', status: 503, says: 'refused' });
    const deleted = told({ at: 300, call: 'delete', status: 204, says: 'done' });
    const gone = told({ since: 800, status: 404, says: 'gone' });
    expect(faultsOf([refused])).toEqual([]);
    expect(faultsOf([accepted, deleted, gone])).toEqual([]);
  });

  it.each([
    { name: 'I1: no outcome', lines: [accepted], fault: 'I1: accepted and never told' },
    {
      name: 'I1: pending after the deadline',
      lines: [accepted, told({ since: 15_101, status: 202, says: 'pending' }), told({})],
      fault: 'I1: still pending',
    },
    {
      name: 'I1: unknown before the deadline',
      lines: [accepted, told({ status: 404, says: 'gone' })],
      fault: 'I1: accepted and then unknown',
    },
    {
      name: 'I2: another outcome',
      lines: [accepted, told({}), told({ hash: 'b' })],
      fault: 'I2: told two',
    },
    {
      name: 'I4: read by another tenant',
      lines: [accepted, told({}), told({ call: 'foreign-get', says: 'pending', status: 202 })],
      fault: 'I4: another tenant was told 202',
    },
    {
      name: 'a result after a DELETE',
      lines: [accepted, told({ at: 300, call: 'delete', says: 'done' }), told({ since: 800 })],
      fault: 'told 200 after its DELETE',
    },
    {
      name: 'another body that was taken',
      lines: [accepted, told({}), told({ call: 'other-body', says: 'pending', status: 202 })],
      fault: 'another body under its id was told 202',
    },
    {
      name: 'an answer held too long',
      lines: [told({ call: 'wait', since: 0, at: 13_001 })],
      fault: 'its held answer took 13001 ms',
    },
  ] satisfies { name: string; lines: Told[]; fault: string }[])(
    'finds $name',
    ({ lines, fault }) => {
      expect(faultsOf(lines)).toEqual(expect.arrayContaining([expect.stringContaining(fault)]));
    },
  );

  it('finds I8: another order than that of deadlines, then of arrival', () => {
    const ordered = [
      { n: 1, timeoutSeconds: 60 },
      { n: 2, timeoutSeconds: 50 },
      { n: 3, timeoutSeconds: 50 },
    ];
    const runs = (...numbers: number[]): Ran[] => numbers.map((n) => ({ at: 1, n }));
    const faults = (ran: Ran[]) => audit({ ...about, told: [], ran, ordered }).faults;
    expect(faults(runs(2, 7, 3, 1, 2))).toEqual([]);
    expect(faults(runs(3, 2, 1))).toEqual(['I8: 2,3,1 ran as 3,2,1']);
  });

  it('times wake-ups between faults alone', () => {
    const waits = [
      told({ n: 1, call: 'wait', since: 0, at: 1_040 }),
      told({ n: 2, call: 'wait', since: 0, at: 5_900 }),
    ];
    const answered = [
      { n: 1, at: 1_000 },
      { n: 2, at: 5_000 },
    ];
    const broken = [{ from: 5_500, to: 5_600, what: 'worker' }];
    expect(audit({ ...about, told: waits, ran: [], answered, broken }).wakeUps).toEqual({
      count: 1,
      p99Ms: 40,
    });
  });

  it('finds I3: a run after the outcome was told', () => {
    expect(faultsOf([accepted, told({})], [{ at: 1_501, n: 1 }])).toEqual([
      'request 1: I3: ran 501 ms after its outcome was told',
    ]);
  });
});
