import { describe, expect, it } from '@jest/globals';
import { parseDuration } from './duration.ts';

describe('parseDuration', () => {
  it.each([
    { text: '0', milliseconds: 0 },
    { text: '0s', milliseconds: 0 },
    { text: '30s', milliseconds: 30_000 },
    { text: '+30s', milliseconds: 30_000 },
    { text: '1.5s', milliseconds: 1_500 },
    { text: '.5s', milliseconds: 500 },
    { text: '1.s', milliseconds: 1_000 },
    { text: '300ms', milliseconds: 300 },
    { text: '1h30m', milliseconds: 5_400_000 },
    { text: '2m3.5s', milliseconds: 123_500 },
    { text: '1500us', milliseconds: 2 },
    { text: '1500µs', milliseconds: 2 },
    { text: '1500μs', milliseconds: 2 },
    { text: '1ns', milliseconds: 1 },
    { text: '25h', milliseconds: 90_000_000 },
  ])('reads $text as $milliseconds ms', ({ text, milliseconds }) => {
    expect(parseDuration(text)).toBe(milliseconds);
  });

  it.each([
    '',
    '30',
    '-5s',
    '-0',
    's',
    '.s',
    '5 minutes',
    '5 s',
    '1d',
    '1H',
    '1s2',
    '1e3s',
    ' 1s',
    '300000000h',
  ])('refuses %p', (text) => {
    expect(parseDuration(text)).toBeUndefined();
  });
});
