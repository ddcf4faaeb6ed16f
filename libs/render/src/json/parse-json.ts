import { isUtf8 } from 'node:buffer';

import { charactersBefore, JsonSyntaxError } from './json-syntax-error.ts';
import { type JsonObject, type JsonValue } from './json-value.ts';

const MAX_DEPTH = 512;
/** Python's own limit for the digits of an int; longer ones cost quadratic time. */
const MAX_INT_DIGITS = 4300;
/** Shorter strings are scanned byte by byte; longer ones are crossed with `indexOf`. */
const SHORT_STRING_BYTES = 32;

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
/** Below the blank: JSON wants these escaped inside strings. */
const CONTROL = /[^ -\uffff]/;
const NUMBER = /^-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?$/;
const ESCAPES: Readonly<Record<string, string>> = {
  '"': '"',
  '\\': '\\',
  '/': '/',
  b: '\b',
  f: '\f',
  n: '\n',
  r: '\r',
  t: '\t',
};

/** Settings of {@link parseJson}. */
export interface ParseJsonOptions {
  /** Accept NaN, Infinity and -Infinity, as Python's decoder does inside tool-call arguments. */
  readonly allowNonFinite?: boolean;
}

/**
 * Parses UTF-8 JSON into values that keep key order, ints, floats and big ints apart. Of duplicate keys the last
 * value wins at the first position. A byte order mark is skipped; lone surrogates are kept.
 */
export function parseJson(bytes: Uint8Array, options: ParseJsonOptions = {}): JsonValue {
  return new Parser(
    Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength),
    options.allowNonFinite === true,
  ).document();
}

class Parser {
  private readonly bytes: Buffer;
  private readonly allowNonFinite: boolean;
  private position = 0;
  private topLevelKey: string | undefined;

  constructor(bytes: Buffer, allowNonFinite: boolean) {
    this.bytes = bytes;
    this.allowNonFinite = allowNonFinite;
  }

  document(): JsonValue {
    if (this.bytes[0] === 0xef && this.bytes[1] === 0xbb && this.bytes[2] === 0xbf) {
      this.position = 3;
    }
    this.skipBlank();
    const value = this.value(0);
    this.skipBlank();
    if (this.position < this.bytes.length) {
      throw this.error('Extra data');
    }
    return value;
  }

  private value(depth: number): JsonValue {
    if (depth > MAX_DEPTH) {
      throw this.error(`nested deeper than ${MAX_DEPTH} levels`);
    }
    switch (this.bytes[this.position]) {
      case 0x7b:
        return this.object(depth);
      case 0x5b:
        return this.array(depth);
      case QUOTE:
        return this.string();
      case 0x74:
        return this.word('true', true);
      case 0x66:
        return this.word('false', false);
      case 0x6e:
        return this.word('null', null);
      case 0x4e:
        return this.nonFinite('NaN', NaN);
      case 0x49:
        return this.nonFinite('Infinity', Infinity);
      default:
        return this.number();
    }
  }

  private object(depth: number): JsonObject {
    const object: JsonObject = new Map();
    this.position++;
    this.skipBlank();
    if (this.bytes[this.position] === 0x7d) {
      this.position++;
      return object;
    }
    for (;;) {
      if (this.bytes[this.position] !== QUOTE) {
        throw this.error('Expecting property name enclosed in double quotes');
      }
      const key = this.string();
      if (depth === 0) {
        this.topLevelKey = key;
      }
      this.skipBlank();
      this.take(0x3a, "Expecting ':' delimiter");
      this.skipBlank();
      object.set(key, this.value(depth + 1));
      this.skipBlank();
      if (this.bytes[this.position] === 0x7d) {
        this.position++;
        return object;
      }
      this.take(0x2c, "Expecting ',' delimiter");
      this.skipBlank();
    }
  }

  private array(depth: number): JsonValue[] {
    const items: JsonValue[] = [];
    this.position++;
    this.skipBlank();
    if (this.bytes[this.position] === 0x5d) {
      this.position++;
      return items;
    }
    for (;;) {
      items.push(this.value(depth + 1));
      this.skipBlank();
      if (this.bytes[this.position] === 0x5d) {
        this.position++;
        return items;
      }
      this.take(0x2c, "Expecting ',' delimiter");
      this.skipBlank();
    }
  }

  private string(): string {
    const start = ++this.position;
    const end = this.plainEnd(start);
    if (end !== undefined) {
      this.position = end + 1;
      return this.text(start, end);
    }
    return this.escapedString(start);
  }

  /** The closing quote of a string without escapes, or undefined when a backslash comes first. */
  private plainEnd(start: number): number | undefined {
    const shortEnd = Math.min(start + SHORT_STRING_BYTES, this.bytes.length);
    for (let at = start; at < shortEnd; at++) {
      const byte = this.bytes[at];
      if (byte === QUOTE) {
        return at;
      }
      if (byte === BACKSLASH) {
        return undefined;
      }
    }
    const end = this.bytes.indexOf(QUOTE, start);
    if (end === -1) {
      throw this.error('Unterminated string', start - 1);
    }
    return this.bytes.subarray(start, end).includes(BACKSLASH) ? undefined : end;
  }

  private escapedString(start: number): string {
    const parts: string[] = [];
    let from = start;
    for (;;) {
      let at = from;
      while (at < this.bytes.length && this.bytes[at] !== QUOTE && this.bytes[at] !== BACKSLASH) {
        at++;
      }
      if (at >= this.bytes.length) {
        throw this.error('Unterminated string', start - 1);
      }
      parts.push(this.text(from, at));
      if (this.bytes[at] === QUOTE) {
        this.position = at + 1;
        return parts.join('');
      }
      const letter = String.fromCharCode(this.bytes[at + 1] ?? 0);
      if (letter === 'u') {
        const digits = this.bytes.toString('latin1', at + 2, at + 6);
        if (!/^[0-9a-fA-F]{4}$/.test(digits)) {
          throw this.error('Invalid \\uXXXX escape', at + 1);
        }
        parts.push(String.fromCharCode(parseInt(digits, 16)));
        from = at + 6;
      } else {
        const escaped = ESCAPES[letter];
        if (escaped === undefined) {
          throw this.error('Invalid \\escape', at);
        }
        parts.push(escaped);
        from = at + 2;
      }
    }
  }

  private text(start: number, end: number): string {
    const text = this.bytes.toString('utf8', start, end);
    const control = text.search(CONTROL);
    if (control !== -1) {
      throw this.error('Invalid control character', start + control);
    }
    if (text.includes('\ufffd') && !isUtf8(this.bytes.subarray(start, end))) {
      throw this.error('invalid UTF-8', start);
    }
    return text;
  }

  private number(): JsonValue {
    const start = this.position;
    let at = start;
    while (at < this.bytes.length && isNumberByte(this.bytes[at])) {
      at++;
    }
    const text = this.bytes.toString('latin1', start, at);
    if (text === '-' && this.bytes.toString('latin1', at, at + 8) === 'Infinity') {
      this.position = at;
      return this.nonFinite('Infinity', -Infinity);
    }
    if (!NUMBER.test(text)) {
      throw this.error('Expecting value');
    }
    this.position = at;
    if (/[.eE]/.test(text)) {
      return Number(text);
    }
    if (text.length > MAX_INT_DIGITS) {
      throw this.error(`more than ${MAX_INT_DIGITS} digits`, start);
    }
    return BigInt(text);
  }

  private nonFinite(word: string, value: number): number {
    const at = this.position;
    this.word(word, null);
    if (!this.allowNonFinite) {
      throw new JsonSyntaxError(
        `${word} is not a JSON value`,
        charactersBefore(this.bytes, at),
        this.topLevelKey,
      );
    }
    return value;
  }

  private word<T>(word: string, value: T): T {
    if (this.bytes.toString('latin1', this.position, this.position + word.length) !== word) {
      throw this.error('Expecting value');
    }
    this.position += word.length;
    return value;
  }

  private take(byte: number, message: string): void {
    if (this.bytes[this.position] !== byte) {
      throw this.error(message);
    }
    this.position++;
  }

  private skipBlank(): void {
    for (;;) {
      const byte = this.bytes[this.position];
      if (byte !== 0x20 && byte !== 0x0a && byte !== 0x0d && byte !== 0x09) {
        return;
      }
      this.position++;
    }
  }

  private error(message: string, at = this.position): JsonSyntaxError {
    return new JsonSyntaxError(message, charactersBefore(this.bytes, at));
  }
}

function isNumberByte(byte: number | undefined): boolean {
  return (
    byte !== undefined &&
    ((byte >= 0x30 && byte <= 0x39) ||
      byte === 0x2d ||
      byte === 0x2b ||
      byte === 0x2e ||
      byte === 0x65 ||
      byte === 0x45)
  );
}
