import { describe, expect, it } from '@jest/globals';
import { waterfall } from './waterfall.ts';

describe('waterfall', () => {
  const lines = waterfall([
    { name: 'prefill', kind: 'leg', startMs: 52, endMs: 98, status: 200 },
    { name: 'encode', kind: 'step', startMs: 0, endMs: 50 },
    { name: 'encode', kind: 'leg', index: 0, startMs: 0, endMs: 25, status: 200 },
    { name: 'encode', kind: 'leg', index: 1, startMs: 25, endMs: 50 },
    { name: 'prefill', kind: 'step', startMs: 50, endMs: 100 },
  ]).split('\n');

  it('orders by start, a step before its legs', () => {
    expect(lines.slice(0, -1).map((line) => line.slice(0, 26).trim())).toEqual([
      'encode',
      '↳ leg 0 (200)',
      '↳ leg 1',
      'prefill',
      '↳ leg (200)',
    ]);
  });

  it('gives the scale in the last line', () => {
    expect(lines.at(-1)?.trim()).toMatch(/^0 +100 ms$/);
  });

  it('draws a bar where the time was spent', () => {
    const bar = (line = ''): string => line.slice(27, 27 + 48);
    expect(bar(lines[0])).toBe('░'.repeat(24) + ' '.repeat(24));
    expect(bar(lines[2])).toBe(' '.repeat(12) + '█'.repeat(12) + ' '.repeat(24));
  });

  it('shows a span that is shorter than a column', () => {
    const [line] = waterfall([
      { name: 'short', kind: 'step', startMs: 99.99, endMs: 100 },
      { name: 'long', kind: 'step', startMs: 0, endMs: 100 },
    ])
      .split('\n')
      .filter((text) => text.startsWith('short'));
    expect(line).toContain('░');
  });
});
