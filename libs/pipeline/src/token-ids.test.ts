import { rootOf } from '@llm-d/json-document';
import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { TokenIdError, TokenIds } from './token-ids.ts';

const span = (text: string) => rootOf(Buffer.from(text));
const read = (text: string): TokenIds => TokenIds.read(span(text));

function indexOfBad(text: string): number {
  try {
    read(text);
  } catch (error) {
    if (error instanceof TokenIdError) return error.index;
  }
  return -1;
}

describe('TokenIds', () => {
  it.each([
    { text: '[]', ids: [] },
    { text: ' [ \n ] ', ids: [] },
    { text: '[0]', ids: [0] },
    { text: '[1,2345,6789]', ids: [1, 2345, 6789] },
    { text: '[ 1 ,\t2\r\n, 3 ]', ids: [1, 2, 3] },
    { text: '[1.0,2e3,3E0,40e-1,1.5e1]', ids: [1, 2000, 3, 4, 15] },
    { text: '[9007199254740991]', ids: [9007199254740991] },
    { text: '[999999999999999,1000000000000000]', ids: [999999999999999, 1000000000000000] },
  ])('reads $text', ({ text, ids }) => {
    const tokenIds = read(text);
    expect(tokenIds.length).toBe(ids.length);
    expect(ids.map((_, i) => tokenIds.at(i))).toEqual(ids);
    expect(tokenIds.at(ids.length)).toBeUndefined();
    expect(TokenIds.count(span(text))).toBe(ids.length);
  });

  it.each(
    [
      ['-1', '1.5', '1e19', '9007199254740992', '9007199254740993', '1e400', '1e-1', '-0', '0.1'],
      ['"1"', 'true', 'false', 'null', '{}', '[]', '[1,2]', '{"a":1}', '"a,b"', '""'],
    ].flat(),
  )('refuses %s and says where it stands', (bad) => {
    expect(indexOfBad(`[${bad}]`)).toBe(0);
    expect(indexOfBad(`[1,2, ${bad} ,4]`)).toBe(2);
    expect(indexOfBad(`[1,${bad}]`)).toBe(1);
  });

  it('finds a bad element far behind', () => {
    const ids = Array.from({ length: 5000 }, (_, i) => String(i));
    ids[4097] = '-1';
    expect(indexOfBad(`[${ids.join(',')}]`)).toBe(4097);
  });

  it('names the index in its message', () => {
    expect(() => read('[1,-1]')).toThrow('element 1 is not a non-negative integer');
  });

  it('keeps the bytes of the list', () => {
    expect(read('[ 1.0, 2e3 ]').raw.toString()).toBe('[ 1.0, 2e3 ]');
  });

  it('reads single ids across the borders of its marks', () => {
    const ids = Array.from({ length: 10_000 }, (_, i) => (i * 7919) % 151_936);
    const tokenIds = read(JSON.stringify(ids).replaceAll(',', ', '));
    expect(tokenIds.length).toBe(10_000);
    for (const index of [0, 1, 1023, 1024, 1025, 2047, 2048, 5119, 5120, 9999]) {
      expect(tokenIds.at(index)).toBe(ids[index]);
    }
    for (const index of [10_000, 10_239, 10_240, 99_999, -1]) {
      expect(tokenIds.at(index)).toBeUndefined();
    }
  });

  it('stays inside its list when more JSON stands around it', () => {
    const document = span('{"token_ids":[1,2],"n":3,"m":4}');
    const list = document.get('token_ids');
    const tokenIds = list && TokenIds.read(list);
    expect(tokenIds?.at(1)).toBe(2);
    expect(tokenIds?.at(2)).toBeUndefined();
  });

  it('agrees with JSON.parse on 10,000 lists', () => {
    const isId = (value: unknown): boolean =>
      typeof value === 'number' &&
      Number.isSafeInteger(value) &&
      value >= 0 &&
      !Object.is(value, -0);
    const spelling = fc.oneof(
      { weight: 12, arbitrary: fc.nat().map(String) },
      { weight: 3, arbitrary: fc.maxSafeNat().map(String) },
      {
        weight: 2,
        arbitrary: fc
          .nat(1000)
          .chain((n) => fc.constantFrom(`${n}.0`, `${n}e0`, `${n}E+2`, `${n}.50e1`)),
      },
      { weight: 1, arbitrary: fc.json({ maxDepth: 1 }) },
    );
    const blank = fc.constantFrom('', '', ' ', '\n\t');
    const list = fc
      .array(fc.tuple(blank, spelling, blank), { maxLength: 30 })
      .map((items) => `[${items.map((parts) => parts.join('')).join(',')}]`);
    fc.assert(
      fc.property(list, (text) => {
        const values = JSON.parse(text) as unknown[];
        const bad = values.findIndex((value) => !isId(value));
        expect(indexOfBad(text)).toBe(bad);
        if (bad >= 0) return;
        const tokenIds = read(text);
        expect(tokenIds.length).toBe(values.length);
        expect(values.map((_, i) => tokenIds.at(i))).toEqual(values);
      }),
      { numRuns: 10_000 },
    );
  });
});
