import { describe, expect, it } from '@jest/globals';

import { strftime } from './strftime.ts';

describe('strftime', () => {
  const date = new Date(2026, 0, 5, 15, 4, 9);
  it.each([
    ['%Y-%m-%d', '2026-01-05'],
    ['%-d %B %Y', '5 January 2026'],
    ['%A, %a, %b', 'Monday, Mon, Jan'],
    ['%H:%M:%S %I %p', '15:04:09 03 PM'],
    ['%y 100%%', '26 100%'],
  ])('%s gives %s', (format, text) => {
    expect(strftime(date, format)).toBe(text);
  });
});
