import { describe, expect, it } from '@jest/globals';
import { readJson } from './read-json.ts';

const read = (text: string) => readJson(Buffer.from(text));

describe('the text of a worker', () => {
  it.each([
    '{"a":[1,2]}',
    '{"a":NaN}',
    '{"a":[-Infinity,NaN,Infinity],"b":"NaN \\" Infinity"}',
    ' {"NaN":"\\\\","a":-Infinity} ',
  ])('is read with its bytes: %s', (text) => {
    const root = read(text);
    expect(Buffer.from(root?.bytes ?? []).toString()).toBe(text.trim());
    expect([...(root?.members() ?? [])].at(-1)?.name).toMatch(/^[ab]$/);
  });

  it.each(['', '<html>', '{"a":Nan}', '{"a":NaN', '{"a":"NaN}'])('is not JSON: %s', (text) => {
    expect(read(text)).toBeUndefined();
  });
});
