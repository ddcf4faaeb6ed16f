import { describe, expect, it } from '@jest/globals';
import { answer } from '../testing.ts';
import { isSameJson } from './is-same-json.ts';

describe('isSameJson', () => {
  it.each([
    ['1', '1', true],
    ['1', '1.0', false],
    ['true', 'true', true],
    ['null', 'null', true],
    ['null', 'false', false],
    ['"a"', '"\\u0061"', true],
    ['"a"', '"b"', false],
    ['[]', '[ ]', true],
    ['[1,[2]]', '[1, [2]]', true],
    ['[1]', '[1,1]', false],
    ['{}', '{ }', true],
    ['{"a":1,"b":2}', '{"b":2,"a":1}', true],
    ['{"a":1}', '{"b":1}', false],
    ['{"a":1}', '{"a":1,"b":2}', false],
    ['{"a":1,"a":2}', '{"a":2}', true],
    ['{}', '[]', false],
  ])('says of %s and %s: %s', (a, b, isSame) => {
    expect(isSameJson(answer(a), answer(b))).toBe(isSame);
    expect(isSameJson(answer(b), answer(a))).toBe(isSame);
  });
});
