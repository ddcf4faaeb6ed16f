import { describe, expect, it } from '@jest/globals';
import { answer } from '../testing.ts';
import { EcConflictError } from './ec-connector.ts';
import { nixl } from './nixl.ts';

const merge = (...answers: string[]): string | undefined =>
  nixl.prefillParams(answers.map(answer))?.toString();

describe('ec-nixl', () => {
  it('expects params of every encode answer', () => {
    expect(nixl.collects).toBe(true);
  });

  it.each([
    { name: 'no answer', answers: [], merged: undefined },
    { name: 'one', answers: ['{"h":{"a":1}}'], merged: '{"h":{"a":1}}' },
    {
      name: 'two',
      answers: ['{"h":{"a":1}}', '{"i":{"a":2}}'],
      merged: '{"h":{"a":1},"i":{"a":2}}',
    },
    { name: 'one with two hashes', answers: ['{"h":{},"i":{}}'], merged: '{"h":{},"i":{}}' },
    { name: 'equal ones', answers: ['{"h":{"a":1}}', '{"h":{"a":1}}'], merged: '{"h":{"a":1}}' },
    { name: 'a null', answers: ['{"h":null,"i":{}}'], merged: '{"i":{}}' },
    { name: 'nulls alone', answers: ['{"h":null}'], merged: undefined },
    { name: 'a null and a descriptor', answers: ['{"h":null}', '{"h":{}}'], merged: '{"h":{}}' },
    { name: 'a scalar', answers: ['{"h":"scalar"}'], merged: '{"h":"scalar"}' },
    { name: 'an empty object', answers: ['{}'], merged: undefined },
  ])('merges $name', ({ answers, merged }) => {
    expect(merge(...answers)).toBe(merged);
  });

  it('keeps the bytes of each descriptor', () => {
    const descriptor = '{ "size":9007199254740993, "b":1.0,"a" : [ ] }';
    expect(merge(`{"h":${descriptor}}`)).toBe(`{"h":${descriptor}}`);
  });

  it.each(['__proto__', 'constructor', 'a"b'])('keeps the hash %j', (hash) => {
    const text = `{${JSON.stringify(hash)}:{"a":1}}`;
    expect(merge(text)).toBe(text);
  });

  it('takes descriptors for equal whatever their order and blanks', () => {
    expect(merge('{"h":{"a":1,"b":[{"c":2}]}}', '{"h":{ "b":[ {"c": 2} ], "a":1 }}')).toBe(
      '{"h":{"a":1,"b":[{"c":2}]}}',
    );
  });

  it.each([
    ['{"a":1}', '{"a":2}'],
    ['{"a":1}', '{"a":1,"b":1}'],
    ['{"a":[1,2]}', '{"a":[2,1]}'],
    ['{"a":null}', '{}'],
    ['{"a":9007199254740993}', '{"a":9007199254740992}'],
    ['{"a":"1"}', '{"a":1}'],
    ['"x"', '"y"'],
  ])('refuses to choose between %s and %s', (a, b) => {
    expect(() => merge(`{"h":${a}}`, `{"h":${b}}`)).toThrow(EcConflictError);
  });
});
