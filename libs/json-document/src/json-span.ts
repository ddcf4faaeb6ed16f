import { JsonError } from './json-error.ts';

/** The kinds of JSON values. */
export type JsonKind = 'object' | 'array' | 'string' | 'number' | 'true' | 'false' | 'null';

/** One member of an object, as byte positions in the source. */
export interface JsonMember {
  /** Index of the name's opening quote. */
  readonly start: number;
  readonly name: string;
  readonly value: JsonSpan;
}

const kinds: Partial<Record<number, JsonKind>> = {
  0x7b: 'object',
  0x5b: 'array',
  0x22: 'string',
  0x74: 'true',
  0x66: 'false',
  0x6e: 'null',
};

const [quote, comma, backslash, closeBracket, closeBrace] = [0x22, 0x2c, 0x5c, 0x5d, 0x7d];

const structure = [...Buffer.from('"[]{}')];
const isStructure = new Uint8Array(256);
for (const byte of structure) isStructure[byte] = 1;

/**
 * One value inside a validated text: where it lies, not what it holds. Members and elements are found on demand and
 * nothing but the end of the value is kept, so walking twice reads twice.
 */
export class JsonSpan {
  /** The whole text; `start` and `end` are positions in it. */
  readonly source: Uint8Array;
  readonly start: number;
  #end: number | undefined;
  readonly #members: readonly JsonMember[] | undefined;

  /**
   * The text must be validated before; this is not checked. Without `end` it is found when it is needed, and so are the
   * members without `members`.
   */
  constructor(source: Uint8Array, start: number, end?: number, members?: readonly JsonMember[]) {
    this.source = source;
    this.start = start;
    this.#end = end;
    this.#members = members;
  }

  /** Index after the last byte. Whoever has walked a value to its end has found it by the way. */
  get end(): number {
    return (this.#end ??= valueEndAt(this.source, this.start));
  }

  get kind(): JsonKind {
    return kinds[this.source[this.start] ?? 0] ?? 'number';
  }

  /** The bytes as they stand in the source, not copied. */
  get bytes(): Uint8Array {
    return this.source.subarray(this.start, this.end);
  }

  get byteLength(): number {
    return this.end - this.start;
  }

  /** The decoded text of a string, undefined for other kinds. Lone surrogates become U+FFFD. */
  text(): string | undefined {
    if (this.source[this.start] !== quote) return undefined;
    return decodeString(this.source, this.start, this.end);
  }

  /** The bytes between the quotes of a string without escapes; undefined for other kinds and for strings with escapes. */
  plainBytes(): Uint8Array | undefined {
    if (this.source[this.start] !== quote) return undefined;
    const inner = this.source.subarray(this.start + 1, this.end - 1);
    return inner.includes(backslash) ? undefined : inner;
  }

  /** The value of a number as a double, undefined for other kinds. */
  number(): number | undefined {
    return this.kind === 'number' ? Number(ascii(this.source, this.start, this.end)) : undefined;
  }

  isTrue(): boolean {
    return this.source[this.start] === 0x74;
  }

  isNull(): boolean {
    return this.source[this.start] === 0x6e;
  }

  /**
   * Visits the members of an object in order, duplicates included; none for other kinds. What a visitor has walked of a
   * value is not walked again.
   */
  eachMember(visit: (member: JsonMember) => void): void {
    if (this.#members) {
      for (const member of this.#members) visit(member);
      return;
    }
    if (this.kind !== 'object') return;
    let at = skipSpace(this.source, this.start + 1);
    while (this.source[at] !== closeBrace) {
      const start = at;
      const nameEnd = stringEnd(this.source, at);
      const colon = skipSpace(this.source, nameEnd);
      const value = new JsonSpan(this.source, skipSpace(this.source, colon + 1));
      visit({ start, name: decodeString(this.source, start, nameEnd), value });
      at = afterValue(this.source, value.end);
    }
    this.#end = at + 1;
  }

  /** The members of an object in order, duplicates included; none for other kinds. */
  members(): readonly JsonMember[] {
    if (this.#members) return this.#members;
    const members: JsonMember[] = [];
    this.eachMember((member) => members.push(member));
    return members;
  }

  /** The same value, whose members are not read again. */
  withMembers(): JsonSpan {
    const members = this.members();
    return new JsonSpan(this.source, this.start, this.end, members);
  }

  /** The elements of an array in order; none for other kinds. */
  *elements(): Generator<JsonSpan> {
    if (this.kind !== 'array') return;
    let at = skipSpace(this.source, this.start + 1);
    while (this.source[at] !== closeBracket) {
      const element = new JsonSpan(this.source, at);
      yield element;
      at = afterValue(this.source, element.end);
    }
    this.#end = at + 1;
  }

  /** The value of a member; of duplicates the last one. */
  get(name: string): JsonSpan | undefined {
    if (this.#members) return this.#members.findLast((member) => member.name === name)?.value;
    let found: JsonSpan | undefined;
    this.eachMember((member) => {
      if (member.name === name) found = member.value;
    });
    return found;
  }

  /** The value at a path of member names. */
  at(...path: string[]): JsonSpan | undefined {
    return path.reduce<JsonSpan | undefined>((span, name) => span?.get(name), this);
  }

  /** Whether an object has no members, or an array no elements. */
  isEmpty(): boolean {
    const first = this.source[skipSpace(this.source, this.start + 1)];
    return first === closeBrace || first === closeBracket;
  }

  /** The whole value as JavaScript; for small values that are not relayed. Numbers become doubles. */
  parse(): unknown {
    return JSON.parse(Buffer.from(this.bytes).toString('utf8'));
  }
}

/** Index of the first byte at or after `start` that is not blank. */
function skipSpace(bytes: Uint8Array, start: number): number {
  let at = start;
  for (;;) {
    const byte = bytes[at];
    if (byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09) at++;
    else return at;
  }
}

/** Takes the index after a value inside a container; returns where the next one starts, or the closing byte. */
function afterValue(bytes: Uint8Array, end: number): number {
  const at = skipSpace(bytes, end);
  return bytes[at] === comma ? skipSpace(bytes, at + 1) : at;
}

/** Takes the index of an opening quote; returns the one after the closing quote. */
function stringEnd(bytes: Uint8Array, start: number): number {
  // Short strings are the most frequent; a call into native code costs more than they do.
  for (let at = start + 1, last = at + 32; at < last; at++) {
    const byte = bytes[at];
    if (byte === quote) return at + 1;
    if (byte === backslash) break;
  }
  for (let at = start + 1; ; at++) {
    at = bytes.indexOf(quote, at);
    if (at < 0) throw new JsonError('syntax', bytes.length, 'the text ends too early');
    let slashes = 0;
    while (bytes[at - 1 - slashes] === backslash) slashes++;
    if (slashes % 2 === 0) return at + 1;
  }
}

/** Index after the value that starts at `start`. */
function valueEndAt(bytes: Uint8Array, start: number): number {
  const first = bytes[start];
  if (first === quote) return stringEnd(bytes, start);
  let at = start;
  if (first !== 0x7b && first !== 0x5b) {
    for (; at < bytes.length; at++) {
      const byte = bytes[at] ?? 0;
      if (byte <= 0x20 || byte === 0x2c || byte === 0x7d || byte === 0x5d) break;
    }
    return at;
  }
  for (let depth = 0; (at = nextStructure(bytes, at)) < bytes.length; at++) {
    const byte = bytes[at];
    if (byte === quote) at = stringEnd(bytes, at) - 1;
    else if (byte === 0x7b || byte === 0x5b) depth++;
    else if (--depth === 0) return at + 1;
  }
  throw new JsonError('syntax', bytes.length, 'the text ends too early');
}

/** Bytes without structure that are looked at one by one, and those that native code searches at once after them. */
const [shortRun, windowBytes] = [256, 4096];

/** Index of the first bracket, brace or quote at or after `start`; the length when there is none. */
function nextStructure(bytes: Uint8Array, start: number): number {
  let at = start;
  for (const stop = Math.min(start + shortRun, bytes.length); at < stop; at++) {
    if (isStructure[bytes[at] ?? 0] === 1) return at;
  }
  // Only long lists of numbers come here. Windows keep the work linear where one of the five is far away.
  for (; at < bytes.length; at += windowBytes) {
    const window = bytes.subarray(at, at + windowBytes);
    const found = structure.map((byte) => window.indexOf(byte)).filter((index) => index >= 0);
    if (found.length > 0) return at + Math.min(...found);
  }
  return bytes.length;
}

function ascii(bytes: Uint8Array, start: number, end: number): string {
  return asBuffer(bytes).toString('latin1', start, end);
}

/** The same bytes; nearly always they are a Buffer already, and another one costs more than a short text. */
const asBuffer = (bytes: Uint8Array): Buffer =>
  Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);

/** Decodes the valid string whose quotes stand at `start` and `end - 1`. */
export function decodeString(bytes: Uint8Array, start: number, end: number): string {
  const text = asBuffer(bytes).toString('utf8', start + 1, end - 1);
  if (!text.includes('\\')) return text;
  return (JSON.parse(`"${text}"`) as string).toWellFormed();
}
