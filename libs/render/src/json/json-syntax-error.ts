/** Text that is not JSON: `offset` counts characters from the start of the text, as Python's decoder does. */
export class JsonSyntaxError extends Error {
  override readonly name = 'JsonSyntaxError';
  readonly offset: number;
  /** Set when the text is only refused for a NaN or Infinity below this top-level field. */
  readonly nonFiniteField: string | undefined;

  constructor(message: string, offset: number, nonFiniteField?: string) {
    super(message);
    this.offset = offset;
    this.nonFiniteField = nonFiniteField;
  }
}

/** Characters of UTF-8 in front of a byte. */
export function charactersBefore(bytes: Uint8Array, at: number): number {
  let count = 0;
  for (let index = 0; index < at; index++) {
    if (((bytes[index] ?? 0) & 0xc0) !== 0x80) {
      count++;
    }
  }
  return count;
}
