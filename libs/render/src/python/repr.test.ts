import { describe, expect, it } from '@jest/globals';

import { floatRepr } from './float-repr.ts';
import { jsonDumps } from './json-dumps.ts';
import { repr } from './repr.ts';

describe('floatRepr', () => {
  it.each([
    [1, '1.0'],
    [0.1, '0.1'],
    [1e-7, '1e-07'],
    [1.5e-7, '1.5e-07'],
    [0.0001, '0.0001'],
    [0.00001, '1e-05'],
    [1e15, '1000000000000000.0'],
    [1e16, '1e+16'],
    [1.2345e22, '1.2345e+22'],
    [1e100, '1e+100'],
    [123456.789, '123456.789'],
    [-2.5, '-2.5'],
    [-0, '-0.0'],
    [0, '0.0'],
    [5e-324, '5e-324'],
    [1.7976931348623157e308, '1.7976931348623157e+308'],
    [NaN, 'nan'],
    [-Infinity, '-inf'],
  ])('%d is spelled %s', (value, text) => {
    expect(floatRepr(value)).toBe(text);
  });
});

describe('repr', () => {
  it('quotes as Python does', () => {
    expect(repr(["it's", 'say "x"', 'both \' and "'])).toBe(
      `["it's", 'say "x"', 'both \\' and "']`,
    );
  });

  it('escapes what cannot be printed', () => {
    expect(repr('\n\u0000\u00a0\u200b\u{e0001}\u00e9')).toBe(
      "'\\n\\x00\\xa0\\u200b\\U000e0001\u00e9'",
    );
  });
});

describe('jsonDumps', () => {
  it('escapes only what JSON demands', () => {
    expect(jsonDumps('\u007f\u2028<&>\u0001"\\')).toBe('"\u007f\u2028<&>\\u0001\\"\\\\"');
  });

  it('refuses what JSON cannot say', () => {
    expect(() => jsonDumps([undefined])).toThrow(/Undefined is not JSON serializable/);
  });
});
