import { describe, expect, it } from '@jest/globals';
import { editObject } from './edit-object.ts';
import { JsonDocument, rootOf } from './json-document.ts';
import { type JsonInput, JsonRaw } from './json-raw.ts';
import { type JsonSpan } from './json-span.ts';
import { replaceValue, setMember } from './patches.ts';
import { jsonRaw } from './serialize.ts';

const parse = (text: string): JsonDocument => JsonDocument.parse(Buffer.from(text));

function found(span: JsonSpan | undefined): JsonSpan {
  if (!span) throw new Error('the test looks for a value that is not there');
  return span;
}

const element = (span: JsonSpan | undefined, index: number): JsonSpan =>
  found([...found(span).elements()][index]);

const body = '{"model": "m", "messages": [ {"role":"user"}, {} ], "n": 1.0}';

describe('replaceValue', () => {
  it('changes a value deep inside and nothing else', () => {
    const document = parse(body);
    const role = found(element(document.get('messages'), 0).get('role'));
    expect(document.patch([replaceValue(role, 'tool')]).toString()).toBe(
      '{"model": "m", "messages": [ {"role":"tool"}, {} ], "n": 1.0}',
    );
    expect(document.toString()).toBe(body);
  });

  it('takes bytes in pieces without joining them', () => {
    const document = parse('{"a":["x"]}');
    const piece = Buffer.alloc(100_000, 'x');
    const quote = Buffer.from('"');
    const patched = document.patch([
      replaceValue(element(document.get('a'), 0), new JsonRaw([quote, piece, quote])),
    ]);
    expect(patched.chunks()).toContain(piece);
    expect(patched.byteLength).toBe(100_010);
  });

  it('replaces an earlier patch of the same place', () => {
    const document = parse(body);
    const model = found(document.get('model'));
    const twice = document.patch([replaceValue(model, 1)]).patch([replaceValue(model, 2)]);
    expect(twice.toString()).toBe(body.replace('"m"', '2'));
  });
});

describe('setMember', () => {
  it.each<[object: string, expected: string]>([
    ['{}', '{"uuid":"h"}'],
    ['{ }', '{ "uuid":"h"}'],
    ['{"a":1}', '{"a":1,"uuid":"h"}'],
    ['{"a":1 }', '{"a":1 ,"uuid":"h"}'],
    ['{"uuid": 5, "a":1}', '{"uuid": "h", "a":1}'],
    ['{"uuid":1,"uuid":2}', '{"uuid":1,"uuid":"h"}'],
    ['{"\\u0075uid":1}', '{"\\u0075uid":"h"}'],
    ['{"a":{"uuid":1}}', '{"a":{"uuid":1},"uuid":"h"}'],
  ])('turns %s into %s', (object, expected) => {
    const document = parse(`{"list": [${object} , 1]}`);
    const patch = setMember(element(document.get('list'), 0), 'uuid', 'h');
    expect(document.patch([patch]).toString()).toBe(`{"list": [${expected} , 1]}`);
  });

  it('writes the name as JSON', () => {
    const document = parse('{"a":{}}');
    const patch = setMember(found(document.get('a')), 'q"', jsonRaw([1]));
    expect(document.patch([patch]).toString()).toBe('{"a":{"q\\"":[1]}}');
  });

  it('sets the same member again', () => {
    const document = parse('{"a":[{}]}');
    const part = element(document.get('a'), 0);
    const twice = document.patch([setMember(part, 'u', 1)]).patch([setMember(part, 'u', 2)]);
    expect(twice.toString()).toBe('{"a":[{"u":2}]}');
  });
});

describe('JsonDocument.patch', () => {
  it('applies patches in any order of their places', () => {
    const document = parse('{"a":[1,2,3]}');
    const patches = [2, 0, 1].map((i) => replaceValue(element(document.get('a'), i), `v${i}`));
    expect(document.patch(patches).toString()).toBe('{"a":["v0","v1","v2"]}');
    expect(document.patch(patches.slice(0, 1)).patch(patches.slice(1)).toString()).toBe(
      '{"a":["v0","v1","v2"]}',
    );
  });

  it('sets members of neighbours and of an object inside another', () => {
    const document = parse('{"a":[{"b":{}},{}]}');
    const outer = element(document.get('a'), 0);
    const patches = [outer, found(outer.get('b')), element(document.get('a'), 1)].map((object) =>
      setMember(object, 'u', 1),
    );
    expect(document.patch(patches).toString()).toBe('{"a":[{"b":{"u":1},"u":1},{"u":1}]}');
  });

  it('stands beside edits of other members, and gives way to an edit of its own', () => {
    const document = parse(body);
    const role = found(element(document.get('messages'), 0).get('role'));
    const patched = document.patch([replaceValue(role, 'tool')]);
    expect(patched.with({ model: 'x', n: undefined, top_p: 1 }).toString()).toBe(
      '{"model": "x", "messages": [ {"role":"tool"}, {} ],"top_p":1}',
    );
    expect(patched.with({ messages: null }).toString()).toBe(
      '{"model": "m", "messages": null, "n": 1.0}',
    );
    expect(patched.with({ messages: undefined }).toString()).toBe('{"model": "m","n": 1.0}');
  });

  it('writes an addition once when it stands at the border of an edited member', () => {
    const bytes = Buffer.from('{"a":1}');
    const patched = JsonDocument.parse(bytes).patch([setMember(rootOf(bytes), 'b', 2)]);
    expect(patched.toString()).toBe('{"a":1,"b":2}');
    expect(patched.with({ a: 3 }).toString()).toBe('{"a":3,"b":2}');
    expect(patched.with({ c: 3 }).toString()).toBe('{"a":1,"c":3,"b":2}');
  });

  it('goes with a value that moves to another member', () => {
    const document = parse('{"a":{"b":[1,2]}}');
    const value = found(document.get('a'));
    const patched = document.patch([replaceValue(element(value.get('b'), 1), 'x')]);
    expect(patched.with({ c: value, a: undefined }).toString()).toBe('{"c":{"b":[1,"x"]}}');
  });

  it('reaches into values that edits have set', () => {
    const document = parse('{}').with({ a: jsonRaw([{}, jsonRaw(2)]) });
    const patch = setMember(element(document.get('a'), 0), 'u', 1);
    expect(document.patch([patch]).toString()).toBe('{"a":[{"u":1},2]}');
  });

  it('still takes patches when an edit has replaced a value that was patched', () => {
    const document = parse('{"b":[1]}').with({ a: jsonRaw([1]) });
    const first = document.patch([replaceValue(element(document.get('a'), 0), 'x')]);
    const second = first.with({ a: 3 });
    const patch = replaceValue(element(second.get('b'), 0), 'y');
    expect(second.patch([patch]).toString()).toBe('{"b":["y"],"a":3}');
  });

  it('refuses patches of another document', () => {
    const other = found(parse(body).get('model'));
    expect(() => parse(body).patch([replaceValue(other, 1)])).toThrow('another JSON document');
  });

  it('refuses a patch inside another one', () => {
    const document = parse(body);
    const messages = found(document.get('messages'));
    const outer = replaceValue(messages, 1);
    const inner = replaceValue(element(messages, 1), 1);
    expect(() => document.patch([outer, inner])).toThrow('overlap');
    expect(() => document.patch([inner]).patch([outer])).toThrow('overlap');
    expect(() => document.patch([setMember(element(messages, 1), 'a', 1), outer])).toThrow(
      'overlap',
    );
  });

  it('takes ten thousand patches in one go', () => {
    const count = 10_000;
    const document = parse(`{"a":[${Array(count).fill('{}').join(',')}]}`);
    const parts = [...found(document.get('a')).elements()];
    const patched = document.patch(parts.map((part, i) => setMember(part, 'u', i)));
    const expected = parts.map((_, u) => ({ u }));
    expect(JSON.parse(patched.toString())).toEqual({ a: expected });
  });
});

describe('JsonDocument.extract', () => {
  it('gives the bytes of a value with the patches inside it, not those around it', () => {
    const document = parse('{"a":[ {"u": 1} ,{"u":2}]}');
    const [first, second] = [element(document.get('a'), 0), element(document.get('a'), 1)];
    const patched = document.patch([
      replaceValue(found(first.get('u')), 'x'),
      setMember(second, 'v', 3),
    ]);
    expect(patched.extract(first).toString()).toBe('{"u": "x"}');
    expect(patched.extract(second).toString()).toBe('{"u":2,"v":3}');
    expect(patched.extract(found(second.get('u'))).toString()).toBe('2');
    expect(document.extract(first).toString()).toBe('{"u": 1}');
  });

  it('gives what has been put in the place of the whole value', () => {
    const document = parse('{"a":[1,2]}');
    const second = element(document.get('a'), 1);
    const patched = document.patch([replaceValue(second, 'x')]);
    expect(patched.extract(second).toString()).toBe('"x"');
  });
});

describe('editObject', () => {
  it.each<[text: string, edits: Record<string, JsonInput | undefined>, expected: string]>([
    ['{"a": 1.0, "b":2}', { b: undefined, c: 'x' }, '{"a": 1.0,"c":"x"}'],
    ['{}', { a: 1 }, '{"a":1}'],
    ['{"a":1,"a":2}', { a: 3 }, '{"a":3}'],
    ['{"a":{"b":1}}', { a: undefined }, '{}'],
  ])('edits %s inside another text', (text, edits, expected) => {
    const bytes = Buffer.from(` [${text}, 1]`);
    const object = element(rootOf(bytes), 0);
    expect(editObject(object, edits).toString()).toBe(expected);
    expect(bytes.toString()).toBe(` [${text}, 1]`);
  });
});
