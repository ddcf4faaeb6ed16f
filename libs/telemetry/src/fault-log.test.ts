import { describe, expect, it } from '@jest/globals';
import { FaultLog } from './fault-log.ts';

/** Notes a fault each second of these, and tells at which second a line was written, and for how many faults. */
function linesOf(seconds: readonly number[]): [second: number, faults: unknown][] {
  const lines: [number, unknown][] = [];
  let second = 0;
  const warn = (fields: object): void => {
    lines.push([second, 'faults' in fields && fields.faults]);
  };
  const log = new FaultLog({ warn }, 'a.key: not usable', () => second * 1_000);
  for (second of seconds) log.note(new Error('down'));
  return lines;
}

const everySecond = (from: number, to: number): number[] =>
  Array.from({ length: to - from }, (_, i) => from + i);

describe('FaultLog', () => {
  it('tells of the first fault at once, then less and less often, and at least each minute', () => {
    const told = linesOf(everySecond(0, 250));
    expect(told.map(([second]) => second)).toEqual([0, 1, 3, 7, 15, 31, 63, 123, 183, 243]);
    expect(told.at(-1)).toEqual([243, 60]);
  });

  it('starts anew with another outage', () => {
    const told = linesOf([...everySecond(0, 10), ...everySecond(500, 505)]);
    expect(told.map(([second]) => second)).toEqual([0, 1, 3, 7, 500, 501, 503]);
  });
});
