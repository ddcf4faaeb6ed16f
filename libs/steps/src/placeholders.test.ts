import { rootOf } from '@llm-d/json-document';
import { describe, expect, it } from '@jest/globals';
import { isInside, readPlaceholder } from './placeholders.ts';

describe('readPlaceholder', () => {
  it.each([
    ['{"offset":1,"length":3}', { offset: 1, length: 3 }],
    ['{"length":0,"offset":0,"is_embed":null}', { offset: 0, length: 0 }],
    ['{"offset":1.0,"length":3e0}', { offset: 1, length: 3 }],
    ['{"offset":-1,"length":3}', undefined],
    ['{"offset":1,"length":-3}', undefined],
    ['{"offset":1.5,"length":3}', undefined],
    ['{"offset":"1","length":3}', undefined],
    ['{"offset":1}', undefined],
    ['{"offset":1,"length":9007199254740993}', undefined],
    ['"x"', undefined],
    ['null', undefined],
  ])('reads %s as %j', (text, placeholder) => {
    expect(readPlaceholder(rootOf(Buffer.from(text)))).toEqual(placeholder);
  });

  it('reads nothing from nothing', () => {
    expect(readPlaceholder(undefined)).toBeUndefined();
  });
});

describe('isInside', () => {
  it.each([
    [0, 4, true],
    [1, 3, true],
    [3, 0, true],
    [4, 0, false],
    [5, 1, false],
    [2, 3, false],
    [0, 9007199254740991, false],
  ])('says of offset %i and length %i in 4 tokens: %s', (offset, length, expected) => {
    expect(isInside({ offset, length }, 4)).toBe(expected);
  });
});
