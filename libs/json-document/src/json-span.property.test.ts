import { isDeepStrictEqual } from 'node:util';
import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { rootOf } from './json-document.ts';
import { type JsonSpan } from './json-span.ts';
import { Choices, decisions, jsonText } from './testing.ts';

/** What a span holds, read through members and elements alone. */
function read(span: JsonSpan): unknown {
  switch (span.kind) {
    case 'object':
      return Object.fromEntries([...span.members()].map(({ name, value }) => [name, read(value)]));
    case 'array':
      return [...span.elements()].map(read);
    case 'string':
      return span.text();
    case 'number':
      return span.number();
    case 'null':
      return null;
    case 'true':
    case 'false':
      return span.isTrue();
  }
}

/** A tree as `text()` tells it: without lone surrogates, which have no UTF-8 form. */
const wellFormed = (text: string): unknown =>
  JSON.parse(text, (_, value: unknown) =>
    typeof value === 'string' ? value.toWellFormed() : value,
  );

/** Calls `visit` on a span and everything inside it. */
function walk(span: JsonSpan, visit: (span: JsonSpan) => void): void {
  visit(span);
  for (const { value } of span.members()) walk(value, visit);
  for (const element of span.elements()) walk(element, visit);
}

describe('JsonSpan', () => {
  it('reads the values that JSON.parse reads', () => {
    fc.assert(
      fc.property(decisions(80), (list) => {
        const text = jsonText(new Choices(list));
        const actual = read(rootOf(Buffer.from(text)));
        const expected = wellFormed(text);
        if (!isDeepStrictEqual(actual, expected)) expect(actual).toEqual(expected);
      }),
      { numRuns: 15_000 },
    );
  });

  it('has the exact bytes of every value inside a text', () => {
    fc.assert(
      fc.property(decisions(60), (list) => {
        const bytes = Buffer.from(jsonText(new Choices(list)));
        walk(rootOf(bytes), (span) => {
          const text = Buffer.from(span.bytes).toString();
          const value: unknown = JSON.parse(text);
          expect(text.trim()).toBe(text);
          if (!isDeepStrictEqual(span.parse(), value)) expect(span.parse()).toEqual(value);
          const isContainer = typeof value === 'object' && value !== null;
          if (isContainer) expect(span.isEmpty()).toBe(Object.keys(value).length === 0);
          for (const name of isContainer && span.kind === 'object' ? Object.keys(value) : []) {
            const member = (value as Record<string, unknown>)[name];
            if (!isDeepStrictEqual(span.get(name)?.parse(), member)) expect(name).toBe('found');
          }
          const plain = span.plainBytes();
          if (plain) expect(`"${Buffer.from(plain).toString()}"`).toBe(text);
          else expect(typeof value !== 'string' || text.includes('\\')).toBe(true);
        });
      }),
      { numRuns: 5000 },
    );
  });
});
