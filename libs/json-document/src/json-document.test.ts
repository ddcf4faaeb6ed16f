import { describe, expect, it } from '@jest/globals';
import { type DocumentLimits, JsonDocument, parseJson, rootOf } from './json-document.ts';
import { JsonError } from './json-error.ts';
import { type JsonInput, JsonRaw } from './json-raw.ts';
import { type JsonSpan } from './json-span.ts';
import { jsonRaw } from './serialize.ts';

type Edits = Record<string, JsonInput | undefined>;

const parse = (text: string, limits?: DocumentLimits): JsonDocument =>
  JsonDocument.parse(Buffer.from(text), limits);

function errorOf(text: string, limits?: DocumentLimits): JsonError | undefined {
  try {
    parse(text, limits);
    return undefined;
  } catch (error) {
    if (error instanceof JsonError) return error;
    throw error;
  }
}

const raw = (text: string): JsonRaw => new JsonRaw([Buffer.from(text)]);

describe('JsonDocument.parse', () => {
  it.each<[text: string, offset: number]>([
    ['null', 0],
    ['  [{"a":1}]', 2],
    ['"{}"', 0],
    ['-1', 0],
    ['true', 0],
  ])('refuses %s, which is no object', (text, offset) => {
    expect(errorOf(text)).toMatchObject({ reason: 'not-an-object', offset });
  });

  it('refuses what is no JSON, and what is beyond the limits', () => {
    expect(errorOf('{"a":1')).toMatchObject({ reason: 'syntax', offset: 6 });
    expect(errorOf('{"a":[[]]}', { maxDepth: 2 })).toMatchObject({ reason: 'too-deep', offset: 6 });
    expect(errorOf('{"\\uD800":1}', { loneSurrogates: 'reject' })).toMatchObject({
      reason: 'lone-surrogate',
      offset: 2,
    });
  });

  it.each<[text: string, offset: number]>([
    ['{"model":1,"model":1}', 11],
    ['{"model":1,"b":2, "mod\\u0065l":3}', 18],
    ['{"model":1,"model":2,"model":3}', 11],
    ['{"\\u006dodel":{},"model":{}}', 17],
  ])('refuses a second member of a unique name in %s', (text, offset) => {
    const uniqueKeys = new Set(['model', 'stream']);
    expect(errorOf(text, { uniqueKeys })).toMatchObject({ reason: 'duplicate-key', offset });
    expect(errorOf(text, { uniqueKeys })?.message).toContain('"model"');
    expect(errorOf(text)).toBeUndefined();
  });

  it.each([
    '{"model":1,"other":2,"other":3}',
    '{"model":1,"a":{"model":2,"model":3}}',
    '{"a":["model","model"],"model":1}',
    '{"model":1,"Model":2}',
  ])('lets other duplicates pass in %s', (text) => {
    expect(errorOf(text, { uniqueKeys: new Set(['model']) })).toBeUndefined();
  });
});

describe('reading a document', () => {
  const document = parse(
    ' { "model" : "m\\u00fc", "stream":true,"n":-1.5e1 , "list":[1, [2]], "none":null, "n":2,"o":{}} ',
  );

  it('knows the names in order, once each', () => {
    expect(document.keys()).toEqual(['model', 'stream', 'n', 'list', 'none', 'o']);
  });

  it('reads texts, flags and the last of duplicates', () => {
    expect(document.text('model')).toBe('mü');
    expect(document.text('stream')).toBeUndefined();
    expect(document.text('missing')).toBeUndefined();
    expect(document.isTrue('stream')).toBe(true);
    expect(document.isTrue('model')).toBe(false);
    expect(document.isTrue('missing')).toBe(false);
    expect(document.get('n')?.number()).toBe(2);
    expect(document.get('list')?.parse()).toEqual([1, [2]]);
    expect(document.get('none')?.isNull()).toBe(true);
    expect(document.get('o')?.isEmpty()).toBe(true);
    expect(document.get('missing')).toBeUndefined();
  });

  it.each<[name: string, value: JsonInput, text: string]>([
    ['a plain value', 'text', '"text"'],
    ['raw bytes', raw('1.0'), '1.0'],
    ['raw bytes in pieces', jsonRaw([raw('1.0'), raw('2.0')]), '[1.0,2.0]'],
    ['raw bytes with blanks around', raw(' [1] '), '[1]'],
    ['a span of another document', rootOf(Buffer.from(' {"b": 1}')), '{"b": 1}'],
  ])('reads an edit that is %s', (_, value, text) => {
    const edited = document.with({ model: value, extra: value });
    expect(String(Buffer.from(edited.get('model')?.bytes ?? []))).toBe(text);
    expect(String(Buffer.from(edited.get('extra')?.bytes ?? []))).toBe(text);
    expect(document.text('model')).toBe('mü');
  });

  it('does not find what an edit has removed', () => {
    const edited = document.with({ n: undefined, extra: 1 });
    expect(edited.get('n')).toBeUndefined();
    expect(edited.keys()).toEqual(['model', 'stream', 'list', 'none', 'o', 'extra']);
  });
});

describe('JsonDocument.with', () => {
  it.each<[name: string, text: string, edits: Edits, expected: string]>([
    ['changes nothing without edits', ' {"a": 1 } \n', {}, ' {"a": 1 } \n'],
    ['replaces a value', '{"a": 1 ,"b":2}', { a: 'x' }, '{"a": "x" ,"b":2}'],
    ['replaces a container', '{"a":{"b":[1]},"c":3}', { a: [] }, '{"a":[],"c":3}'],
    ['adds to an empty object', '{ }', { a: 1 }, '{"a":1 }'],
    ['adds at the end, in order', '{"a":1\n}', { c: 2, b: 3 }, '{"a":1,"c":2,"b":3\n}'],
    ['removes the first member', '{ "a":1, "b":2}', { a: undefined }, '{"b":2}'],
    ['removes a middle member', '{"a":1, "b":2 , "c":3}', { b: undefined }, '{"a":1,"c":3}'],
    ['removes the last member', '{"a":1 , "b":2 }', { b: undefined }, '{"a":1}'],
    ['removes the only member', '{ "a":1 }', { a: undefined }, '{}'],
    ['removes all', '{"a":1,"b":2}', { a: undefined, b: undefined }, '{}'],
    ['removes all and adds', '{"a":1,"b":2}', { a: undefined, b: undefined, c: 3 }, '{"c":3}'],
    ['removes two in a row', '{"a":1,"b":2,"c":3}', { a: undefined, b: undefined }, '{"c":3}'],
    ['removes around one', '{"a":1,"b":2,"c":3}', { a: undefined, c: undefined }, '{"b":2}'],
    ['removes before a replaced one', '{"a":1,"b":2}', { a: undefined, b: 3 }, '{"b":3}'],
    ['removes the last and adds', '{"a":1,"b":2}', { b: undefined, c: 3 }, '{"a":1,"c":3}'],
    ['does not mind removing nothing', '{"a":1}', { b: undefined }, '{"a":1}'],
    [
      'keeps one of edited duplicates',
      '{"a":1,"b":2,"a":3,"c":4}',
      { a: 5 },
      '{"b":2,"a":5,"c":4}',
    ],
    ['removes all duplicates', '{"a":1,"b":2,"a":3}', { a: undefined }, '{"b":2}'],
    ['keeps other duplicates', '{"a":1,"a":2,"b":3}', { b: 4 }, '{"a":1,"a":2,"b":4}'],
    ['finds escaped names', '{"\\u0061":1}', { a: 2 }, '{"\\u0061":2}'],
    ['writes names as JSON', '{}', { 'a"\\\n': 1 }, '{"a\\"\\\\\\n":1}'],
    ['keeps the blanks around', '\n {"a":1} \t', { b: 2 }, '\n {"a":1,"b":2} \t'],
    [
      'keeps digits and escapes',
      '{"a":1.0,"b":"\\/\\u00e9"}',
      { c: 1 },
      '{"a":1.0,"b":"\\/\\u00e9","c":1}',
    ],
  ])('%s', (_, text, edits, expected) => {
    const document = parse(text);
    const edited = document.with(edits);
    expect(edited.toString()).toBe(expected);
    expect(edited.byteLength).toBe(Buffer.byteLength(expected));
    expect(Buffer.concat(edited.chunks()).toString()).toBe(expected);
    expect(document.toString()).toBe(text);
  });

  it('takes later edits over earlier ones', () => {
    const document = parse('{"a":1,"b":2}').with({ a: 3, c: 4, d: 5 });
    expect(document.with({ a: undefined, c: undefined }).toString()).toBe('{"b":2,"d":5}');
    expect(document.with({ a: undefined }).with({ a: 6 }).toString()).toBe(
      '{"a":6,"b":2,"c":4,"d":5}',
    );
  });

  it('writes a large value where it lies, without copying it', () => {
    const bytes = Buffer.from(`{"a":"${'x'.repeat(100_000)}","b":1}`);
    const chunks = JsonDocument.parse(bytes).with({ b: 2 }).chunks();
    expect(chunks[0]?.buffer).toBe(bytes.buffer);
    expect(chunks[0]?.byteOffset).toBe(bytes.byteOffset);
  });

  it('gives few pieces, however many members a text has', () => {
    const members = Array.from({ length: 50 }, (_, i) => `"m${i}":${i}`);
    const document = parse(`{${members.join(',')}}`);
    expect(document.chunks()).toHaveLength(1);
    expect(document.with({ m20: 'x' }).chunks()).toHaveLength(3);
    expect(document.with({ m20: undefined }).chunks()).toHaveLength(3);
  });

  it('makes documents of its own', () => {
    const document = JsonDocument.of({ b: 1, a: { list: [raw('1.0'), null] }, left: undefined });
    expect(document.toString()).toBe('{"b":1,"a":{"list":[1.0,null]}}');
  });
});

describe('rootOf', () => {
  it.each([
    ['{}', '{}'],
    [' \n[1]\t\r ', '[1]'],
    [' "a " ', '"a "'],
    ['5', '5'],
  ])('takes the blanks off %j', (text, expected) => {
    expect(Buffer.from(rootOf(Buffer.from(text)).bytes).toString()).toBe(expected);
  });
});

describe('parseJson', () => {
  it.each(['{}', ' { "a" : 1 , "b":{"a":2},"a":"x" } ', '[{"a":1}]', '"text"', ' 12 ', 'null'])(
    'finds in %s what a walk over the text finds',
    (text) => {
      const bytes = Buffer.from(text);
      const [parsed, walked] = [parseJson(bytes), rootOf(bytes)];
      const shape = (span: JsonSpan): unknown[] =>
        [...span.members()].map(({ start, name, value }) => [start, name, value.start, value.end]);
      expect(shape(parsed)).toEqual(shape(walked));
      expect([parsed.start, parsed.end, parsed.kind]).toEqual([
        walked.start,
        walked.end,
        walked.kind,
      ]);
      expect(parsed.get('a')?.text()).toBe(walked.get('a')?.text());
    },
  );

  it('refuses what is not JSON', () => {
    expect(() => parseJson(Buffer.from('{"a":}'))).toThrow(JsonError);
  });
});
