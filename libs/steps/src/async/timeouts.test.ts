import { describe, expect, it } from '@jest/globals';
import { clampTimeoutMs, timeoutBounds } from './timeouts.ts';

const unset = { default_seconds: 0, max_seconds: 0 };

describe('the bounds of deadlines (1.7)', () => {
  it.each([
    { name: 'C18 enqueue, nothing set', mode: 'enqueue', asked: 1_000_000, seconds: 86_400 },
    { name: 'C19 enqueue, max 300', mode: 'enqueue', max: 300, asked: 1_000_000, seconds: 300 },
    { name: 'C20 enqueue, max 7200, no header', mode: 'enqueue', max: 7_200, seconds: 3_600 },
    { name: 'enqueue, nothing set, no header', mode: 'enqueue', seconds: 3_600 },
    { name: 'enqueue, max 300, no header', mode: 'enqueue', max: 300, seconds: 300 },
    {
      name: 'enqueue, a default above the max',
      mode: 'enqueue',
      standard: 90_000,
      seconds: 90_000,
    },
    { name: 'C21 wait, nothing set', mode: 'wait', asked: 1_000_000, seconds: 3_600 },
    { name: 'C21 wait, default 7200', mode: 'wait', standard: 7_200, asked: 1e6, seconds: 7_200 },
    { name: 'wait, nothing set, no header', mode: 'wait', seconds: 60 },
    { name: 'wait, default 5, no header', mode: 'wait', standard: 5, seconds: 5 },
    { name: 'hazard a: a number past all limits', mode: 'wait', asked: Infinity, seconds: 3_600 },
  ] as const)('$name: $seconds s', (row) => {
    const {
      mode,
      standard = 0,
      max = 0,
      asked,
      seconds,
    } = { max: 0, ...row } as {
      mode: 'enqueue' | 'wait';
      standard?: number;
      max?: number;
      asked?: number;
      seconds: number;
    };
    const bounds = timeoutBounds(mode, { default_seconds: standard, max_seconds: max });
    expect(clampTimeoutMs(asked, bounds)).toBe(seconds * 1_000);
  });

  it('C21 are 3600, 7200 and a day at most', () => {
    expect(timeoutBounds('wait', unset).maxSeconds).toBe(3_600);
    expect(timeoutBounds('wait', { ...unset, default_seconds: 7_200 }).maxSeconds).toBe(7_200);
    expect(timeoutBounds('enqueue', unset).maxSeconds).toBe(86_400);
  });

  it('may not contradict each other', () => {
    expect(() => timeoutBounds('wait', { default_seconds: 20, max_seconds: 10 })).toThrow(
      'timeouts: wait: default_seconds: expected at most max_seconds (10), got 20',
    );
  });
});
