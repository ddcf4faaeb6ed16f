import { isUtf8 } from 'node:buffer';
import { TextScanner } from './byte-scan.ts';
import { JsonError } from './json-error.ts';

/** What a text may hold beyond the grammar of RFC 8259. */
export interface JsonLimits {
  /** Containers inside one another. Engines read with recursive parsers, whose own limit is near 1000. */
  maxDepth?: number;
  /** Whether `"\ud800"` without its other half passes. It has no UTF-8 form, so no worker can answer it faithfully. */
  loneSurrogates?: 'accept' | 'reject';
}

export const defaultMaxDepth = 1000;

/** Shared by all runs: each is over before the next one starts, and an array of its own would cost more than a short text. */
const openByDefault = new Uint8Array(defaultMaxDepth + 1);

const [tab, lineFeed, carriageReturn, space] = [0x09, 0x0a, 0x0d, 0x20];
const [quote, comma, minus, dot, zero, nine] = [0x22, 0x2c, 0x2d, 0x2e, 0x30, 0x39];
const [colon, openBracket, backslash, closeBracket] = [0x3a, 0x5b, 0x5c, 0x5d];
const [lowerU, openBrace, closeBrace] = [0x75, 0x7b, 0x7d];

/** Strings longer than this are scanned in blocks. */
const shortText = 48;

/** What may follow a backslash; `u` is handled apart. */
const isEscape = new Uint8Array(256);
for (const character of '"\\/bfnrt') isEscape[character.charCodeAt(0)] = 1;

/** Value of a hexadecimal digit, 255 for other bytes. */
const hexValue = new Uint8Array(256).fill(255);
for (let value = 0; value < 16; value++) {
  hexValue[value.toString(16).charCodeAt(0)] = value;
  hexValue[value.toString(16).toUpperCase().charCodeAt(0)] = value;
}

/**
 * Checks that `bytes` is one JSON value as RFC 8259 and `JSON.parse` define it, in UTF-8 without a byte order mark.
 *
 * @throws JsonError with the offset of the first byte that cannot belong to a valid text.
 */
export function validateJson(bytes: Uint8Array, limits: JsonLimits = {}): void {
  topLevelPositions(bytes, limits);
}

/**
 * Checks like `validateJson` and tells where the members of a top-level object lie: for each one four positions, start
 * and end of the name with its quotes, start and end of the value.
 */
export function topLevelPositions(bytes: Uint8Array, limits: JsonLimits): readonly number[] {
  if (!isUtf8(bytes)) throw errorBefore(utf8Length(bytes), bytes, limits);
  const validator = new Validator(bytes, limits);
  validator.run();
  return validator.positions;
}

/** The error of a text that is not UTF-8 from `length` on: what is wrong before that comes first. */
function errorBefore(length: number, bytes: Uint8Array, limits: JsonLimits): JsonError {
  try {
    new Validator(bytes.subarray(0, length), limits).run();
  } catch (error) {
    if (error instanceof JsonError && error.offset < length) return error;
  }
  return new JsonError('not-utf-8', length, 'the text is not UTF-8');
}

/** Pieces that are tried: blocks that may end inside a character, then what is left of the last one. */
const utf8Steps = [4096, 4095, 4094, 4093, 4, 3, 2, 1];

/** Length of the longest prefix that is UTF-8; only computed for a message. */
function utf8Length(bytes: Uint8Array): number {
  let length = 0;
  const isGood = (step: number): boolean =>
    length + step <= bytes.length && isUtf8(bytes.subarray(length, length + step));
  for (let step; (step = utf8Steps.find(isGood)) !== undefined;) length += step;
  return length;
}

class Validator {
  readonly #bytes: Uint8Array;
  readonly #maxDepth: number;
  readonly #rejectsLoneSurrogates: boolean;
  readonly #scanner: TextScanner;
  readonly positions: number[] = [];

  constructor(bytes: Uint8Array, limits: JsonLimits) {
    this.#bytes = bytes;
    this.#maxDepth = limits.maxDepth ?? defaultMaxDepth;
    this.#rejectsLoneSurrogates = limits.loneSurrogates === 'reject';
    this.#scanner = new TextScanner(bytes);
  }

  run(): void {
    const bytes = this.#bytes;
    /** The closing byte of each open container; `close` is that of the innermost one, 0 outside. */
    const open =
      this.#maxDepth <= defaultMaxDepth ? openByDefault : new Uint8Array(this.#maxDepth + 1);
    let [depth, close] = [0, 0];
    let at = this.#skipSpace(0);
    let end = 0;
    for (;;) {
      // A value starts here.
      const first = bytes[at] ?? 0;
      if (first === openBrace || first === openBracket) {
        if (depth === this.#maxDepth) {
          throw new JsonError('too-deep', at, `more than ${this.#maxDepth} nested values`);
        }
        close = first + 2;
        open[++depth] = close;
        at = this.#skipSpace(at + 1);
        if (bytes[at] !== close) {
          if (first === openBrace) at = this.#key(at, depth);
          continue;
        }
        // An empty container ends like a value: its closing byte is met below.
      } else {
        if (first === quote) end = this.#string(at + 1);
        else if (first === minus || (first >= zero && first <= nine)) {
          if (close === closeBracket) {
            const next = this.#integers(at);
            if (next !== at) {
              at = this.#skipSpace(next);
              continue;
            }
          }
          end = this.#number(at);
        } else end = this.#literal(at);
        at = this.#skipSpace(end);
      }
      // A value has ended: close what ends here, then go to the next value.
      for (;;) {
        if (depth === 1 && this.positions.length % 4 === 3) this.positions.push(end);
        const byte = bytes[at];
        if (depth === 0) {
          if (at < bytes.length) throw this.#unexpected(at);
          return;
        }
        if (byte === comma) {
          at = this.#skipSpace(at + 1);
          if (close === closeBrace) at = this.#key(at, depth);
          break;
        }
        if (byte !== close) throw this.#unexpected(at);
        close = open[--depth] ?? 0;
        end = at + 1;
        at = this.#skipSpace(end);
      }
    }
  }

  /** Passes a member's name and colon; returns where its value starts. */
  #key(at: number, depth: number): number {
    if (this.#bytes[at] !== quote) throw this.#unexpected(at);
    const nameEnd = this.#string(at + 1);
    const afterName = this.#skipSpace(nameEnd);
    if (this.#bytes[afterName] !== colon) throw this.#unexpected(afterName);
    const value = this.#skipSpace(afterName + 1);
    if (depth === 1) this.positions.push(at, nameEnd, value);
    return value;
  }

  /**
   * Passes integers that are separated by bare commas, the form of long lists of token ids; returns where the first
   * element starts that does not fit, or that ends the list.
   */
  #integers(start: number): number {
    const bytes = this.#bytes;
    let at = start;
    for (let element = start; ; element = ++at) {
      let byte = bytes[at] ?? 0;
      if (byte <= zero || byte > nine) return element;
      do byte = bytes[++at] ?? 0;
      while (byte >= zero && byte <= nine);
      if (byte !== comma) return element;
    }
  }

  /** Takes the index after the opening quote; returns the one after the closing quote. */
  #string(start: number): number {
    const bytes = this.#bytes;
    let at = start;
    for (;;) {
      const shortEnd = at + shortText;
      let byte: number | undefined;
      for (; at < shortEnd; at++) {
        byte = bytes[at];
        if (byte === undefined || byte === quote || byte === backslash || byte < space) break;
      }
      if (at === shortEnd) {
        at = this.#scanner.find(at);
        byte = bytes[at];
      }
      if (byte === quote) return at + 1;
      if (byte !== backslash) throw this.#unexpected(at);
      at = isEscape[bytes[at + 1] ?? 0] === 1 ? at + 2 : this.#unicodeEscape(at);
    }
  }

  /** Takes the index of a backslash before what is no short escape; returns the one after the escape. */
  #unicodeEscape(at: number): number {
    if (this.#bytes[at + 1] !== lowerU) throw this.#unexpected(at + 1);
    const unit = this.#codeUnit(at + 2);
    if (this.#rejectsLoneSurrogates && (unit & 0xf800) === 0xd800) {
      const isPair =
        unit < 0xdc00 &&
        this.#bytes[at + 6] === backslash &&
        this.#bytes[at + 7] === lowerU &&
        (this.#codeUnit(at + 8) & 0xfc00) === 0xdc00;
      if (!isPair) {
        throw new JsonError('lone-surrogate', at, 'half of a surrogate pair stands alone');
      }
      return at + 12;
    }
    return at + 6;
  }

  #codeUnit(at: number): number {
    let unit = 0;
    for (let i = at; i < at + 4; i++) {
      const value = hexValue[this.#bytes[i] ?? 0] ?? 255;
      if (value === 255) throw this.#unexpected(i);
      unit = unit * 16 + value;
    }
    return unit;
  }

  #number(start: number): number {
    const bytes = this.#bytes;
    let at = bytes[start] === minus ? start + 1 : start;
    at = bytes[at] === zero ? at + 1 : this.#digits(at);
    if (bytes[at] === dot) at = this.#digits(at + 1);
    const exponent = bytes[at];
    if (exponent === 0x65 || exponent === 0x45) {
      const sign = bytes[at + 1];
      at = this.#digits(sign === minus || sign === 0x2b ? at + 2 : at + 1);
    }
    return at;
  }

  /** Passes one or more digits. */
  #digits(start: number): number {
    const bytes = this.#bytes;
    let at = start;
    for (; at < bytes.length; at++) {
      const byte = bytes[at] ?? 0;
      if (byte < zero || byte > nine) break;
    }
    if (at === start) throw this.#unexpected(at);
    return at;
  }

  #literal(at: number): number {
    const bytes = this.#bytes;
    const word = bytes[at] === 0x74 ? 'true' : bytes[at] === 0x66 ? 'false' : 'null';
    for (let i = 0; i < word.length; i++) {
      if (bytes[at + i] !== word.charCodeAt(i)) throw this.#unexpected(at + i);
    }
    return at + word.length;
  }

  #skipSpace(start: number): number {
    const bytes = this.#bytes;
    let at = start;
    for (;;) {
      const byte = bytes[at];
      if (byte === space || byte === lineFeed || byte === carriageReturn || byte === tab) at++;
      else return at;
    }
  }

  #unexpected(at: number): JsonError {
    const isEnd = at >= this.#bytes.length;
    return new JsonError(
      'syntax',
      Math.min(at, this.#bytes.length),
      isEnd ? 'the text ends too early' : 'unexpected character',
    );
  }
}
