import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';

import { jsonDumps } from '../python/json-dumps.ts';
import { fromJson } from '../python/value.ts';
import { JsonSyntaxError } from './json-syntax-error.ts';
import { parseJson } from './parse-json.ts';

function parse(text: string) {
  return parseJson(Buffer.from(text));
}

function failure(text: string): JsonSyntaxError {
  try {
    parse(text);
  } catch (error) {
    if (error instanceof JsonSyntaxError) return error;
    throw error;
  }
  throw new Error(`${text} was accepted`);
}

describe('parseJson', () => {
  it.each([
    ['1.0', 1],
    ['1e5', 100000],
    ['1E-7', 1e-7],
    ['-0.0', -0],
    ['7', 7n],
    ['-0', 0n],
    ['123456789012345678901', 123456789012345678901n],
    ['"\\ud83d\\ude00 \\u00e9 \\/ \\t"', '\u{1f600} \u00e9 / \t'],
    ['"x\\ud800y"', 'x\ud800y'],
    ['"\u{1f600}\u00e9"', '\u{1f600}\u00e9'],
    ['"\u007f\u0085"', '\u007f\u0085'],
    ['\ufeff[]', []],
    [' [ 1 , true , null ] ', [1n, true, null]],
  ])('reads %s', (text, value) => {
    expect(parse(text)).toEqual(value);
  });

  it('keeps the order of keys, numbers and duplicates included', () => {
    const value = parse('{"b":1,"10":2,"2":3,"b":4}');
    expect(value).toEqual(
      new Map([
        ['b', 4n],
        ['10', 2n],
        ['2', 3n],
      ]),
    );
    expect(value instanceof Map && [...value.keys()]).toEqual(['b', '10', '2']);
  });

  it.each([
    ['{"messages":[', 13],
    ['{"messages":[]} x', 16],
    ['', 0],
    ['{"a" 1}', 5],
    ['{"a":1,}', 7],
    ['[1,]', 3],
    ['[1 2]', 3],
    ['01', 0],
    ['1.', 0],
    ['+1', 0],
    ['tru', 0],
    ['"abc', 0],
    ['"a\\x"', 2],
    ['"a\\u12g4"', 3],
    ['"a\nb"', 2],
    ['"\u00e9" x', 4],
  ])('refuses %j at character %i', (text, offset) => {
    expect(failure(text).offset).toBe(offset);
  });

  it('refuses bytes that are not UTF-8, and takes a real replacement character', () => {
    expect(() => parseJson(Buffer.from([0x22, 0xff, 0x22]))).toThrow(/UTF-8/);
    expect(parse('"\ufffd"')).toBe('\ufffd');
  });

  it('refuses NaN and Infinity with the top-level field, unless they are allowed', () => {
    expect(failure('{"a":{"b":NaN}}').nonFiniteField).toBe('a');
    expect(failure('{"c":[-Infinity]}').nonFiniteField).toBe('c');
    const allowed = parseJson(Buffer.from('[NaN,Infinity,-Infinity]'), { allowNonFinite: true });
    expect(allowed).toEqual([NaN, Infinity, -Infinity]);
  });

  it('refuses nesting and digits beyond its limits', () => {
    expect(failure('['.repeat(600)).message).toMatch(/512 levels/);
    expect(failure('1'.repeat(5000)).message).toMatch(/4300 digits/);
  });

  it('agrees with JSON.parse on random documents', () => {
    fc.assert(
      fc.property(fc.json({ maxDepth: 4 }), (text) => {
        const again = jsonDumps(fromJson(parse(text)));
        expect(JSON.parse(again)).toEqual(JSON.parse(text));
      }),
      { numRuns: 500 },
    );
  });

  it('accepts exactly what JSON.parse accepts after a random change', () => {
    fc.assert(
      fc.property(
        fc.json({ maxDepth: 2 }),
        fc.nat(),
        fc.string({ maxLength: 2 }),
        (text, at, put) => {
          const index = at % (text.length + 1);
          const changed = text.slice(0, index) + put + text.slice(index + put.length);
          const isValid = (run: () => unknown): boolean => {
            try {
              run();
              return true;
            } catch {
              return false;
            }
          };
          expect(isValid(() => parse(changed))).toBe(isValid(() => JSON.parse(changed)));
        },
      ),
      { numRuns: 2000 },
    );
  });
});
