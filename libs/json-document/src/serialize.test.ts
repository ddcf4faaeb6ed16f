import { describe, expect, it } from '@jest/globals';
import { rootOf } from './json-document.ts';
import { type JsonInput, JsonRaw } from './json-raw.ts';
import { jsonRaw } from './serialize.ts';

const raw = (text: string): JsonRaw => new JsonRaw([Buffer.from(text)]);

describe('jsonRaw', () => {
  it.each<JsonInput[]>([
    ['text "é" \\ \n \u2028'],
    ['\ud800'],
    [0],
    [-1.5e-10],
    [true],
    [null],
    [[]],
    [{}],
    [[1, 'a', [null], { b: [] }]],
    [{ a: 1, 'b"': { c: [true, false] } }],
  ])('writes %j as JSON.stringify does', (value) => {
    expect(jsonRaw(value).toString()).toBe(JSON.stringify(value));
  });

  it('leaves out members that are undefined', () => {
    expect(jsonRaw({ a: undefined, b: 1, c: undefined }).toString()).toBe('{"b":1}');
    expect(jsonRaw({ a: undefined }).toString()).toBe('{}');
  });

  it('keeps the bytes of raw parts and spans', () => {
    const span = rootOf(Buffer.from(' {"n": 1.0} '));
    expect(jsonRaw(span).toString()).toBe('{"n": 1.0}');
    expect(jsonRaw([raw('1e5'), span, 'x']).toString()).toBe('[1e5,{"n": 1.0},"x"]');
    expect(jsonRaw({ a: span, b: { c: raw('[ ]') } }).toString()).toBe(
      '{"a":{"n": 1.0},"b":{"c":[ ]}}',
    );
  });

  it('does not copy raw parts', () => {
    const part = raw('"large"');
    expect(jsonRaw(part)).toBe(part);
    expect(jsonRaw({ a: part }).chunks).toContain(part.chunks[0]);
  });
});

describe('JsonRaw', () => {
  it('counts and joins its pieces', () => {
    const pieces = new JsonRaw([Buffer.from('["é'), Buffer.from('"]')]);
    expect(pieces.byteLength).toBe(6);
    expect(pieces.toString()).toBe('["é"]');
    expect(Buffer.from(pieces.toBytes()).toString()).toBe('["é"]');
  });

  it('gives a single piece as it is', () => {
    const piece = Buffer.from('1');
    expect(new JsonRaw([piece]).toBytes()).toBe(piece);
  });
});
