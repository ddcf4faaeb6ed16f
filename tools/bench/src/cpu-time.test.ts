import { describe, expect, it } from '@jest/globals';
import { cpuMs, parseStat } from './cpu-time.ts';

describe('parseStat', () => {
  it('reads parent and ticks, whatever the name of the process is', () => {
    const tail = 'S 41 42 42 0 -1 4194304 1 2 3 4 150 25 7 8 20 0 11 0 12345 1 2 3';
    for (const name of ['node', 'a b', 'x) R 1 2', '(sh)']) {
      expect(parseStat(`42 (${name}) ${tail}`)).toEqual({ parent: 41, ticks: 175 });
    }
  });
});

describe('cpuMs', () => {
  it('grows by the time that a process has worked', () => {
    const before = cpuMs(process.pid);
    const start = process.cpuUsage();
    while (process.cpuUsage(start).user < 100_000);
    expect(cpuMs(process.pid) - before).toBeGreaterThanOrEqual(80);
  });

  it('is nothing for a process that is not there', () => {
    expect(cpuMs(2 ** 30)).toBe(0);
  });
});
