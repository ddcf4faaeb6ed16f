import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';

import { RenameModel } from './rename-model.ts';

/** The answer cut into chunks of so many bytes. */
function renamed(text: string, size: number): string {
  const rename = new RenameModel('"mine"');
  const bytes = Buffer.from(text);
  const out: Uint8Array[] = [];
  for (let at = 0; at < bytes.length; at += size) {
    out.push(...rename.push(bytes.subarray(at, at + size)));
  }
  return Buffer.concat(out).toString();
}

const expected = (value: Record<string, unknown>): Record<string, unknown> =>
  typeof value['model'] === 'string' ? { ...value, model: '"mine"' } : value;

describe('RenameModel', () => {
  it.each([
    { name: 'in an object', text: '{"a":{"model":"x"},"model":"org/x","b":["model","x"]}' },
    { name: 'after a value that is the name', text: '{"a":"model","model":"org/x","c":"model"}' },
    { name: 'with escapes around', text: '{"a\\"":"\\\\","model":"or\\"g","z":"\\""}' },
    { name: 'a null stays', text: '{"model":null,"a":"x"}' },
    { name: 'with blanks', text: '{ "model" : "org/x" , "a" : 1 }' },
  ])('$name, however it is cut', ({ text }) => {
    for (let size = 1; size <= text.length; size++) {
      const value = JSON.parse(renamed(text, size)) as unknown;
      expect(value).toEqual(expected(JSON.parse(text) as Record<string, unknown>));
    }
  });

  it('renames in each object of a list', () => {
    const text = '[{"model":"a","x":[{"model":"in"}]},{"model":"b"}]';
    for (let size = 1; size <= text.length; size++) {
      expect(JSON.parse(renamed(text, size))).toEqual([
        { model: '"mine"', x: [{ model: 'in' }] },
        { model: '"mine"' },
      ]);
    }
  });

  it('changes nothing else, whatever the answer', () => {
    const json = fc.dictionary(fc.string(), fc.jsonValue({ maxDepth: 3 }));
    fc.assert(
      fc.property(
        json,
        fc.option(fc.string()),
        fc.integer({ min: 1, max: 40 }),
        (value, model, size) => {
          const answer = { ...value, model };
          expect(JSON.parse(renamed(JSON.stringify(answer), size))).toEqual(
            JSON.parse(JSON.stringify(expected(answer))),
          );
        },
      ),
    );
  });
});
