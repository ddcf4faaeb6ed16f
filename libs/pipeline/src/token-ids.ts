import { JsonRaw, type JsonSpan } from '@llm-d/json-document';

/** An element that is no token id. */
export class TokenIdError extends Error {
  override readonly name = 'TokenIdError';
  readonly index: number;

  constructor(index: number) {
    super(`element ${index} is not a non-negative integer`);
    this.index = index;
  }
}

/** Every so many elements the position is kept, so that reading one id walks only this far. */
const stride = 1024;

const [zero, nine, comma] = [0x30, 0x39, 0x2c];
/** Integers with more digits may be beyond 2^53 and are looked at one by one. */
const safeDigits = 15;

/** The token ids of a prompt as the bytes they came in; a long prompt never becomes a JavaScript array. */
export class TokenIds {
  readonly length: number;
  /** The list as it came, brackets included. */
  readonly raw: JsonRaw;
  readonly #span: JsonSpan;
  /** Where every `stride`th element starts. */
  readonly #marks: readonly number[];

  private constructor(span: JsonSpan, length: number, marks: readonly number[]) {
    this.length = length;
    this.raw = new JsonRaw([span.bytes]);
    this.#span = span;
    this.#marks = marks;
  }

  /**
   * Counts and checks the elements of an array.
   *
   * @throws TokenIdError when one is not an integer from 0 to 2^53 - 1, in whatever spelling.
   */
  static read(span: JsonSpan): TokenIds {
    const { source } = span;
    const last = span.end - 1;
    const marks: number[] = [];
    let length = 0;
    for (let at = skipSpace(source, span.start + 1); at < last; length++) {
      if (length % stride === 0) marks.push(at);
      const start = at;
      let byte = source[at] ?? 0;
      while (byte >= zero && byte <= nine) byte = source[++at] ?? 0;
      const isPlain = at > start && at - start <= safeDigits && (byte === comma || at === last);
      if (!isPlain) {
        while (at < last && source[at] !== comma) at++;
        if (!isTokenId(numberAt(source, start, at))) throw new TokenIdError(length);
      }
      at = skipSpace(source, at + 1);
    }
    return new TokenIds(span, length, marks);
  }

  /** Counts the elements of an array without looking at them. */
  static count(span: JsonSpan): number {
    if (span.isEmpty()) return 0;
    let commas = 0;
    for (let at = span.start; at < span.end; at++) if (span.source[at] === comma) commas++;
    return commas + 1;
  }

  /** The id at an index; undefined outside the list. */
  at(index: number): number | undefined {
    const mark = this.#marks[Math.floor(index / stride)];
    if (mark === undefined || index >= this.length) return undefined;
    const { source, end } = this.#span;
    let at = mark;
    for (let left = index % stride; left > 0; left--) at = source.indexOf(comma, at) + 1;
    const next = source.indexOf(comma, at);
    return numberAt(source, at, next < 0 || next >= end ? end - 1 : next);
  }
}

function skipSpace(bytes: Uint8Array, start: number): number {
  let at = start;
  while ((bytes[at] ?? 0x21) <= 0x20) at++;
  return at;
}

function isTokenId(value: number): boolean {
  return Number.isSafeInteger(value) && value >= 0 && !Object.is(value, -0);
}

/** NaN for anything that is not a JSON number. */
function numberAt(bytes: Uint8Array, start: number, end: number): number {
  const text = Buffer.from(bytes.buffer, bytes.byteOffset + start, end - start).toString('latin1');
  return /^\s*[-0-9.eE+]+\s*$/.test(text) ? Number(text) : NaN;
}
