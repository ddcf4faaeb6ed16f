import { describe, expect, it } from '@jest/globals';
import { rootOf } from './json-document.ts';
import { type JsonKind, type JsonSpan } from './json-span.ts';

const span = (text: string): JsonSpan => rootOf(Buffer.from(text));

describe('JsonSpan', () => {
  it.each<[text: string, kind: JsonKind]>([
    ['{"a":1}', 'object'],
    ['[1]', 'array'],
    ['"a"', 'string'],
    ['-1', 'number'],
    ['0', 'number'],
    ['true', 'true'],
    ['false', 'false'],
    ['null', 'null'],
  ])('tells the kind of %s', (text, kind) => {
    expect(span(text).kind).toBe(kind);
    expect(span(text).byteLength).toBe(text.length);
  });

  it.each([
    ['"plain"', 'plain'],
    ['""', ''],
    ['"\\"\\\\\\/\\b\\f\\n\\r\\t"', '"\\/\b\f\n\r\t'],
    ['"\\u00e9\\ud83d\\ude00é😀"', 'é😀é😀'],
    ['"a\\ud800b"', 'a\ufffdb'],
    ['"\\u0000"', '\u0000'],
  ])('decodes %s', (text, expected) => {
    expect(span(text).text()).toBe(expected);
  });

  it.each(['1', 'null', '["a"]', '{"a":"b"}', 'true'])('has no text for %s', (text) => {
    expect(span(text).text()).toBeUndefined();
    expect(span(text).plainBytes()).toBeUndefined();
  });

  it.each([
    ['0', 0],
    ['-0', -0],
    ['-12.5E-1', -1.25],
    ['1e400', Infinity],
    ['9007199254740993', 9007199254740992],
  ])('reads the number %s', (text, expected) => {
    expect(span(text).number()).toBe(expected);
  });

  it.each(['"1"', 'true', 'null', '[1]'])('has no number for %s', (text) => {
    expect(span(text).number()).toBeUndefined();
  });

  it('gives the bytes of a string without escapes, not copied', () => {
    const value = span('"data:é"');
    const plain = value.plainBytes();
    expect(Buffer.from(plain ?? []).toString()).toBe('data:é');
    expect(plain?.buffer).toBe(value.source.buffer);
    expect(span('"a\\/b"').plainBytes()).toBeUndefined();
  });

  it('lists members with their places, duplicates included', () => {
    const object = span('{ "a" : 1 , "b}":{"a":[]},"a":"\\"}" }');
    const members = [...object.members()].map(({ start, name, value }) => [
      start,
      name,
      Buffer.from(value.bytes).toString(),
    ]);
    expect(members).toEqual([
      [2, 'a', '1'],
      [12, 'b}', '{"a":[]}'],
      [26, 'a', '"\\"}"'],
    ]);
  });

  it('keeps its members where they are walked again', () => {
    const object = span(' {"a":1,"b":[2]} ');
    const kept = object.withMembers();
    expect(kept).toMatchObject({ start: object.start, end: object.end });
    expect(kept.members()).toEqual(object.members());
    expect(kept.members()).toBe(kept.members());
  });

  it('lists elements of every kind', () => {
    const list = span('[ 1,"]" ,[ ] , {"a":[1]},null,-2.5e3 ,"\\\\",true\n]');
    expect([...list.elements()].map((item) => item.parse())).toEqual([
      ...[1, ']', [], { a: [1] }, null, -2500, '\\', true],
    ]);
  });

  it.each(['[]', '[ \n]', '{}', '{ }'])('finds nothing inside %s', (text) => {
    expect(span(text).isEmpty()).toBe(true);
    expect([...span(text).elements()]).toEqual([]);
    expect([...span(text).members()]).toEqual([]);
  });

  it.each(['1', '"{}"', 'null'])('has neither members nor elements when it is %s', (text) => {
    expect([...span(text).elements(), ...span(text).members()]).toEqual([]);
    expect(span(text).get('a')).toBeUndefined();
  });

  it('walks a path of names', () => {
    const value = span('{"a":{"b":{"c":5},"b":{"c":6}},"x":[]}');
    expect(value.at('a', 'b', 'c')?.number()).toBe(6);
    expect(value.at('a', 'x', 'c')).toBeUndefined();
    expect(value.at('x', 'b')).toBeUndefined();
    expect(value.at()).toBe(value);
  });

  it.each([30, 31, 32, 33, 5000])('finds the end of strings of %i bytes', (length) => {
    for (const tail of ['', '\\"', '\\\\', '\\\\\\"', '\\u0022']) {
      const text = `"${'x'.repeat(length)}${tail}"`;
      const [first, second] = span(`[${text},"next"]`).elements();
      expect(Buffer.from(first?.bytes ?? []).toString()).toBe(text);
      expect(second?.text()).toBe('next');
    }
  });

  it.each([60, 64, 1000, 1024, 5000])('finds the end of lists of %i numbers', (count) => {
    for (const last of ['', ',"]"', ',[1]', ',{"a":"}"}', ' '.repeat(5000)]) {
      const list = `[${Array<string>(count).fill('123').join(',')}${last}]`;
      const object = span(`{"a":{"b":${list}},"c":5}`);
      expect(Buffer.from(object.at('a', 'b')?.bytes ?? []).toString()).toBe(list);
      expect(object.get('c')?.number()).toBe(5);
    }
  });

  it('stops with an error at the end of a text that was not validated', () => {
    expect(() => [...span('["abc').elements()]).toThrow('the text ends too early at byte 5');
    expect(() => [...span('[[1,2').elements()]).toThrow('the text ends too early at byte 5');
  });
});
