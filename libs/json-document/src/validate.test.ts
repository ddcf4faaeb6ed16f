import { describe, expect, it } from '@jest/globals';
import { JsonError, type JsonErrorReason } from './json-error.ts';
import { defaultMaxDepth, type JsonLimits, validateJson } from './validate.ts';

function errorOf(text: string | Uint8Array, limits: JsonLimits = {}): JsonError | undefined {
  try {
    validateJson(Buffer.from(text), limits);
    return undefined;
  } catch (error) {
    if (error instanceof JsonError) return error;
    throw error;
  }
}

const nested = (depth: number): string => '['.repeat(depth) + ']'.repeat(depth);

describe('validateJson', () => {
  it.each([
    'null',
    'true',
    'false',
    '0',
    '-0',
    '-12.5e+3',
    '""',
    '{}',
    '[]',
    ' \t\r\n[ ] \n',
    '{"a":{"b":[1,2.5,{"c":null}]},"a":[]}',
    '[1,2 ,3\n,4]',
    '"\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\uD83D\\ude00"',
    '"\u007f\u2028é€😀"',
    '1e400',
    '123456789012345678901234567890',
  ])('accepts %s', (text) => {
    expect(errorOf(text)).toBeUndefined();
    expect(() => JSON.parse(text) as unknown).not.toThrow();
  });

  it.each<[text: string, offset: number]>([
    ['', 0],
    ['  ', 2],
    ['\ufeff{}', 0],
    ['nul', 3],
    ['nulL', 3],
    ['True', 0],
    ['NaN', 0],
    ['nan', 1],
    ['undefined', 0],
    ["'a'", 0],
    ['01', 1],
    ['-', 1],
    ['-a', 1],
    ['+1', 0],
    ['.5', 0],
    ['1.', 2],
    ['1.e5', 2],
    ['1e', 2],
    ['1e+', 3],
    ['1e+x', 3],
    ['0x10', 1],
    ['1 2', 2],
    ['{}{}', 2],
    ['{} ]', 3],
    ['[', 1],
    ['[1', 2],
    ['[1,', 3],
    ['[1,]', 3],
    ['[,1]', 1],
    ['[1 2]', 3],
    ['[1,2,,3]', 5],
    ['[1,02]', 4],
    ['[1,2}', 4],
    ['{', 1],
    ['{"a"', 4],
    ['{"a":', 5],
    ['{"a":1', 6],
    ['{"a" 1}', 5],
    ['{"a":1,}', 7],
    ['{"a":1]', 6],
    ['{a:1}', 1],
    ['{1:1}', 1],
    ['{,}', 1],
    ['"', 1],
    ['"abc', 4],
    ['"a\nb"', 2],
    ['"a\u0000b"', 2],
    ['"\\x"', 2],
    ['"\\', 2],
    ['"\\u12', 5],
    ['"\\u12g4"', 5],
    ['"\\u 123"', 3],
    ['[1,\u00a02]', 3],
    ['/**/1', 0],
  ])('refuses %j at byte %i', (text, offset) => {
    expect(errorOf(text)).toMatchObject({ reason: 'syntax', offset });
    expect(() => JSON.parse(text) as unknown).toThrow();
  });

  it.each<[name: string, bytes: number[], offset: number]>([
    ['a stray byte', [0x22, 0x80, 0x22], 1],
    ['a byte that is never used', [0x22, 0x61, 0xff, 0x22], 2],
    ['a cut character', [0x22, 0xe2, 0x82, 0x22], 1],
    ['a text that ends inside a character', [0x22, 0x61, 0xf0, 0x9f, 0x98], 2],
    ['an overlong form', [0x22, 0xc0, 0xaf, 0x22], 1],
    ['half of a surrogate pair', [0x22, 0xed, 0xa0, 0x80, 0x22], 1],
    ['a code point beyond U+10FFFF', [0x22, 0xf4, 0x90, 0x80, 0x80, 0x22], 1],
    ['a bad byte after the text', [0x7b, 0x7d, 0xff], 2],
  ])('refuses %s', (_, bytes, offset) => {
    expect(errorOf(Uint8Array.from(bytes))).toMatchObject({ reason: 'not-utf-8', offset });
  });

  it.each([0, 1, 4093, 4094, 4095, 4096, 4097, 20_000])(
    'finds the byte that is not UTF-8 after %i characters',
    (count) => {
      for (const character of ['a', 'é', '€', '😀']) {
        const before = Buffer.from(`"${character.repeat(count)}`);
        const error = errorOf(Buffer.concat([before, Uint8Array.of(0xff), Buffer.from('€"')]));
        expect(error).toMatchObject({ reason: 'not-utf-8', offset: before.length });
      }
    },
  );

  it('names the first of several faults, whatever their kind', () => {
    expect(errorOf(Uint8Array.of(0x7b, 0x78, 0xff))).toMatchObject({ reason: 'syntax', offset: 1 });
    expect(errorOf(Uint8Array.of(0x22, 0xff, 0x0a))).toMatchObject({ offset: 1 });
  });

  it('says where the fault is and nothing of the text', () => {
    expect(errorOf('{"secret"; 1}')?.message).toBe('unexpected character at byte 9');
    expect(errorOf('{"secret"')?.message).toBe('the text ends too early at byte 9');
    expect(errorOf(Uint8Array.of(0xff))?.message).toBe('the text is not UTF-8 at byte 0');
  });

  it('reads a view that starts and ends inside a larger buffer', () => {
    const buffer = Buffer.from('"[1,2]"');
    expect(errorOf(buffer.subarray(1, 6))).toBeUndefined();
    expect(errorOf(buffer.subarray(1, 5))).toMatchObject({ offset: 4 });
  });
});

describe('the limit of depth', () => {
  it.each([1, 2, 3, 64])('lets %i containers pass where they are allowed', (depth) => {
    expect(errorOf(nested(depth), { maxDepth: depth })).toBeUndefined();
    expect(errorOf(`${nested(depth)} `, { maxDepth: depth })).toBeUndefined();
  });

  it.each([1, 2, 3, 64])('refuses one more than %i at its opening bracket', (depth) => {
    const expected = { reason: 'too-deep', offset: depth };
    expect(errorOf(nested(depth + 1), { maxDepth: depth })).toMatchObject(expected);
  });

  it('counts objects and arrays alike, and only those that are open', () => {
    expect(errorOf('[{"a":[]},{},[[]]]', { maxDepth: 3 })).toBeUndefined();
    expect(errorOf('[{"a":[{}]}]', { maxDepth: 3 })).toMatchObject({ offset: 7 });
    expect(errorOf('1', { maxDepth: 0 })).toBeUndefined();
    expect(errorOf('{}', { maxDepth: 0 })).toMatchObject({ reason: 'too-deep', offset: 0 });
  });

  it('is 1000 where nothing else is said', () => {
    expect(defaultMaxDepth).toBe(1000);
    expect(errorOf(nested(1000))).toBeUndefined();
    expect(errorOf(nested(1001))).toMatchObject({ reason: 'too-deep', offset: 1000 });
  });
});

describe('the limit on lone surrogates', () => {
  const reject: JsonLimits = { loneSurrogates: 'reject' };

  it.each([
    '"\\ud83d\\ude00"',
    '"\\uD800\\uDC00"',
    '"\\uDBFF\\uDFFF"',
    '"\\ud83d\\ude00\\ud83d\\ude00"',
    '"\\ud7ff\\ue000"',
    '"\\\\ud800"',
    '{"\\ud83d\\ude00":1}',
    '"😀"',
  ])('lets %s pass', (text) => {
    expect(errorOf(text, reject)).toBeUndefined();
  });

  it.each<[text: string, offset: number]>([
    ['"\\ud800"', 1],
    ['"\\uDFFF"', 1],
    ['"a\\ude00\\ud83d"', 2],
    ['"\\ud800\\ud800\\udc00"', 1],
    ['"\\ud83d\\ude00\\ude00"', 13],
    ['"\\ud83d \\ude00"', 1],
    ['"\\ud83d\\n"', 1],
    ['"\\ud83d\\u0041"', 1],
    ['{"\\uD800":1}', 2],
    ['{"a":{"b\\uDC00":1}}', 8],
  ])('refuses %s at byte %i', (text, offset) => {
    expect(errorOf(text)).toBeUndefined();
    expect(errorOf(text, reject)).toMatchObject({ reason: 'lone-surrogate', offset });
  });

  it.each<[text: string, reason: JsonErrorReason, offset: number]>([
    ['"\\ud83d\\u12"', 'syntax', 11],
    ['"\\ud83d\\ude00', 'syntax', 13],
    ['"\\ud83', 'syntax', 6],
  ])('leaves the faults of %s as they are', (text, reason, offset) => {
    expect(errorOf(text, reject)).toMatchObject({ reason, offset });
  });
});
