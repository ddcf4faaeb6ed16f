import { describe, expect, it } from '@jest/globals';
import { JsonError } from './json-error.ts';
import { pathTo } from './path-to.ts';
import { validateJson } from './validate.ts';

describe('the path to a byte', () => {
  it.each<[text: string, path: string]>([
    [String.raw`{"a":"\ud800"}`, 'a'],
    [String.raw`{"a":1,"b":["x",{"y":[]},"\ud800"]}`, 'b[2]'],
    [
      String.raw`{"messages":[{},{"role":"user","content":[{"text":"ok"},{"text":"\ud800"}]}]}`,
      'messages[1].content[1].text',
    ],
    [String.raw`{"a":{"b":"x"},"c":"\ud800"}`, 'c'],
    // Quotes, brackets and commas inside of texts are none.
    [String.raw`{"a":"\\\",[{","b":"\\","c":["}]",",","\ud800"]}`, 'c[2]'],
    [String.raw`{"a":"é😀","b":"é\ud800"}`, 'b'],
    // The name itself is at fault: the path is that of its object.
    [String.raw`{"a":1,"\ud800":1}`, ''],
    [String.raw`{"a":{"b":1,"c\ud800":1}}`, 'a'],
    // Other names could hold anything.
    [String.raw`{"a":{"x y":{"b":"\ud800"}}}`, 'a'],
    [`{"${'n'.repeat(41)}":"\\ud800"}`, ''],
    [String.raw`{"\u0061":["\ud800"]}`, ''],
    [String.raw`["\ud800"]`, '[0]'],
    [String.raw`"\ud800"`, ''],
  ])('of half a surrogate pair in %s is "%s"', (text, path) => {
    const bytes = Buffer.from(text);
    const failure = errorOf(bytes);
    expect(failure?.reason).toBe('lone-surrogate');
    expect(pathTo(bytes, failure?.offset ?? 0)).toBe(path);
    // As part of a larger buffer.
    const larger = Buffer.concat([Buffer.from('[[{"z":'), bytes]);
    expect(pathTo(larger.subarray(7), failure?.offset ?? 0)).toBe(path);
  });

  it('may be asked for beyond the end', () => {
    expect(pathTo(Buffer.from('{"a":['), 100)).toBe('a[0]');
  });

  it('leads past long texts, and is given up where there is too much to look at', () => {
    const path = (before: string): string => pathTo(Buffer.from(`{"a":[${before}`), 1e9);
    expect(path(`"${'x'.repeat(1_000_000)}",`)).toBe('a[1]');
    expect(path('1,'.repeat(200_000))).toBe('');
    expect(path(`"${String.raw`\"`.repeat(300_000)}",`)).toBe('');
  });
});

function errorOf(bytes: Buffer): JsonError | undefined {
  try {
    validateJson(bytes, { loneSurrogates: 'reject' });
    return undefined;
  } catch (error) {
    if (error instanceof JsonError) return error;
    throw error;
  }
}
