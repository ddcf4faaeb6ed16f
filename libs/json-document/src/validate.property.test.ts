import { isUtf8 } from 'node:buffer';
import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { JsonError } from './json-error.ts';
import { Choices, decisions, jsonText, mutated } from './testing.ts';
import { type JsonLimits, validateJson } from './validate.ts';

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

function parses(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** Length in bytes of the well-formed character at an index; 0 when there is none. */
function characterLength(bytes: Uint8Array, at: number): number {
  if ((bytes[at] ?? 0) < 0x80) return 1;
  for (let length = 2; length <= 4; length++) {
    try {
      utf8.decode(bytes.subarray(at, at + length));
      return length;
    } catch {
      // A longer piece may be whole.
    }
  }
  return 0;
}

/** How a scalar goes on after a character: the next state, or the end of the scalar with that character outside. */
const numberStates: Readonly<Record<string, readonly [RegExp, string][]>> = {
  minus: [
    [/0/, 'zero'],
    [/[1-9]/, 'integer'],
  ],
  zero: [
    [/\./, 'dot'],
    [/[eE]/, 'exponent'],
  ],
  integer: [
    [/[0-9]/, 'integer'],
    [/\./, 'dot'],
    [/[eE]/, 'exponent'],
  ],
  dot: [[/[0-9]/, 'fraction']],
  fraction: [
    [/[0-9]/, 'fraction'],
    [/[eE]/, 'exponent'],
  ],
  exponent: [
    [/[+-]/, 'sign'],
    [/[0-9]/, 'power'],
  ],
  sign: [[/[0-9]/, 'power']],
  power: [[/[0-9]/, 'power']],
};
const wholeNumbers = ['zero', 'integer', 'fraction', 'power'];

/** What turns a text that stopped in a state into a valid one, before the containers are closed. */
const completions: Readonly<Record<string, string>> = {
  value: '0',
  key: '"":0',
  colon: ':0',
  string: '"',
  escape: 'n"',
  ...{ minus: '0', dot: '0', exponent: '0', sign: '0' },
};

/**
 * A second reading of RFC 8259, one character after the other, as slow and plain as can be: it stops at the first
 * character after which no valid text is possible.
 */
class Reference {
  /** Closing characters that are still to come, the innermost last. */
  readonly #open: string[] = [];
  #state = 'value';
  #isName = false;
  /** What is left of a literal or of the four digits of an escape. */
  #rest = '';

  /** Whether the text may go on with this character. */
  take(character: string): boolean {
    const ends = numberStates[this.#state];
    if (ends) {
      const next = ends.find(([pattern]) => pattern.test(character));
      if (next) this.#state = next[1];
      else if (!wholeNumbers.includes(this.#state)) return false;
      else this.#state = 'after';
      if (next) return true;
    }
    if (this.#state === 'string') return this.#inString(character);
    if (this.#state === 'escape') {
      this.#state = character === 'u' ? 'digits' : 'string';
      this.#rest = 'hhhh';
      return '"\\/bfnrtu'.includes(character);
    }
    if (this.#state === 'digits') {
      this.#rest = this.#rest.slice(1);
      if (this.#rest === '') this.#state = 'string';
      return /[0-9a-fA-F]/.test(character);
    }
    if (this.#state === 'literal') {
      const isRight = this.#rest.startsWith(character);
      this.#rest = this.#rest.slice(1);
      if (this.#rest === '') this.#state = 'after';
      return isRight;
    }
    return ' \t\r\n'.includes(character) || this.#between(character);
  }

  /** What makes a valid text of the characters so far. */
  completion(): string {
    const state = this.#state;
    const isRest = state === 'literal' || state === 'digits';
    const rest = isRest ? this.#rest.replaceAll('h', '0') + (state === 'digits' ? '"' : '') : '';
    const own = (completions[state] ?? '') + rest;
    const isInName = this.#isName && ['string', 'escape', 'digits'].includes(state);
    return own + (isInName ? ':0' : '') + this.#open.toReversed().join('');
  }

  isWhole(): boolean {
    return this.#open.length === 0 && ['after', ...wholeNumbers].includes(this.#state);
  }

  #inString(character: string): boolean {
    if (character === '"') this.#state = this.#isName ? 'colon' : 'after';
    else if (character === '\\') this.#state = 'escape';
    return character >= ' ';
  }

  #between(character: string): boolean {
    const close = this.#open.at(-1);
    const isFirst = this.#state === 'first';
    if (character === close && (isFirst || this.#state === 'after')) {
      this.#open.pop();
      this.#state = 'after';
      return true;
    }
    if (this.#state === 'after') {
      this.#state = close === '}' ? 'key' : 'value';
      return character === ',' && close !== undefined;
    }
    if (this.#state === 'colon') {
      this.#state = 'value';
      return character === ':';
    }
    this.#isName = this.#state === 'key' || (isFirst && close === '}');
    return this.#isName ? this.#startString(character) : this.#startValue(character);
  }

  #startString(character: string): boolean {
    this.#state = 'string';
    return character === '"';
  }

  #startValue(character: string): boolean {
    if (character === '{' || character === '[') {
      this.#open.push(character === '{' ? '}' : ']');
      this.#state = 'first';
      return true;
    }
    const literal = ['true', 'false', 'null'].find((word) => word.startsWith(character));
    if (literal !== undefined) {
      this.#rest = literal.slice(1);
      this.#state = 'literal';
      return true;
    }
    if (character === '-') this.#state = 'minus';
    else if (character === '0') this.#state = 'zero';
    else if (/[1-9]/.test(character)) this.#state = 'integer';
    else return this.#startString(character);
    return true;
  }
}

interface Verdict {
  /** Bytes before the first character that cannot belong; undefined when the text is valid. */
  offset: number | undefined;
  reason: 'syntax' | 'not-utf-8';
  /** What a valid text may have after those bytes. */
  completion: string;
}

function judge(bytes: Uint8Array): Verdict {
  const reference = new Reference();
  for (let at = 0; at < bytes.length;) {
    const completion = reference.completion();
    const length = characterLength(bytes, at);
    if (length === 0) return { offset: at, reason: 'not-utf-8', completion };
    const character =
      length === 1
        ? String.fromCharCode(bytes[at] ?? 0)
        : utf8.decode(bytes.subarray(at, at + length));
    if (!reference.take(character)) return { offset: at, reason: 'syntax', completion };
    at += length;
  }
  const offset = reference.isWhole() ? undefined : bytes.length;
  return { offset, reason: 'syntax', completion: reference.completion() };
}

function errorOf(bytes: Uint8Array, limits: JsonLimits = {}): JsonError | undefined {
  try {
    validateJson(bytes, limits);
    return undefined;
  } catch (error) {
    if (error instanceof JsonError) return error;
    throw error;
  }
}

/** What both readers say, in one comparable form. */
const told = (offset: number | undefined, reason: string): string =>
  offset === undefined ? 'valid' : `${reason} at ${offset}`;

function agree(bytes: Uint8Array): void {
  const error = errorOf(bytes);
  const { offset, reason } = judge(bytes);
  const actual = told(error?.offset, error?.reason ?? '');
  if (actual !== told(offset, reason)) expect(actual).toBe(told(offset, reason));
}

/** Sizes around which the validator changes how it scans. */
const borders = [
  15, 16, 17, 47, 48, 49, 63, 64, 65, 65_534, 65_535, 65_536, 65_537, 131_072, 131_120,
];

/** A text with strings that end close to the borders of scan blocks. */
function longText(random: Choices): Buffer {
  let text = '["';
  for (let count = 1 + random.below(3); count > 0; count--) {
    text += 'x'.repeat((borders[random.below(borders.length)] ?? 0) + random.below(7));
    text += random.of(['', 'é', '€', '😀', '\\n', '\\\\', '\\"', '\\u00e9', '","', '"  ,  "']);
  }
  return Buffer.from(text + '"]');
}

describe('the reference of these tests', () => {
  it('accepts what JSON.parse accepts, and can complete what stands before an error', () => {
    fc.assert(
      fc.property(decisions(40), (list) => {
        const random = new Choices(list);
        const text = jsonText(random);
        const bytes = random.chance(7) ? mutated(random, text) : Buffer.from(text);
        const { offset, completion } = judge(bytes);
        if (isUtf8(bytes)) expect(parses(utf8.decode(bytes))).toBe(offset === undefined);
        else expect(offset).toBeDefined();
        const prefix = utf8.decode(bytes.subarray(0, offset));
        if (!parses(prefix + completion)) expect(prefix + completion).toBe('a valid text');
      }),
      { numRuns: 10_000 },
    );
  });
});

describe('validateJson', () => {
  it('accepts every valid text, and refuses halves of surrogate pairs where it is told to', () => {
    fc.assert(
      fc.property(decisions(80), (list) => {
        const text = jsonText(new Choices(list));
        JSON.parse(text);
        validateJson(Buffer.from(text));
        const unpaired = text
          .replaceAll(/\\[^u]/g, ' ')
          .replaceAll(/\\ud[89ab]..\\ud[c-f]../gi, ' ')
          .search(/\\ud[89a-f]/i);
        const error = errorOf(Buffer.from(text), { loneSurrogates: 'reject' });
        expect(error?.reason).toBe(unpaired < 0 ? undefined : 'lone-surrogate');
      }),
      { numRuns: 20_000 },
    );
  });

  it('accepts what JSON.parse accepts and finds the first wrong byte of everything else', () => {
    fc.assert(
      fc.property(decisions(50), (list) => {
        const random = new Choices(list);
        const bytes = mutated(random, jsonText(random));
        const isValid = isUtf8(bytes) && parses(utf8.decode(bytes));
        if (isValid !== (errorOf(bytes) === undefined)) expect(!isValid).toBe(isValid);
        agree(bytes);
      }),
      { numRuns: 35_000 },
    );
  });

  it('reads random bytes of the alphabet of JSON as JSON.parse does', () => {
    const alphabet = [...'{}[]",:\\u0-1.eE+ tfn'];
    fc.assert(
      fc.property(fc.array(fc.constantFrom(...alphabet), { maxLength: 12 }), (characters) => {
        const text = characters.join('');
        const isValid = errorOf(Buffer.from(text)) === undefined;
        if (isValid !== parses(text)) expect(`${text} ${isValid}`).toBe(`${text} ${!isValid}`);
        agree(Buffer.from(text));
      }),
      { numRuns: 10_000 },
    );
  });

  it('sees every byte of strings that cross the borders of scan blocks', () => {
    fc.assert(
      fc.property(decisions(16), (list) => {
        const random = new Choices(list);
        const bytes = longText(random);
        JSON.parse(bytes.toString());
        expect(errorOf(bytes)).toBeUndefined();
        // Close to the borders, counted from both ends of the text.
        const near = (borders[random.below(borders.length)] ?? 0) + random.below(20);
        bytes[(random.chance(4) ? near : Math.abs(bytes.length - near)) % bytes.length] =
          random.below(0x30);
        agree(bytes);
      }),
      { numRuns: 300 },
    );
  });
});
