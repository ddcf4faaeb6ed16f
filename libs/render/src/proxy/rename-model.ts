const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;
const OPEN_ARRAY = 0x5b;
const CLOSE_ARRAY = 0x5d;
const COMMA = 0x2c;
const COLON = 0x3a;
/** Longer names are none that we look for. */
const MAX_KEY_BYTES = 16;

/**
 * Puts the caller's name of the model into an answer that passes by: the text `model` of the answer object, or of each
 * object when the answer is a list. Keeps none of the bytes, whatever the answer's size.
 */
export class RenameModel {
  private readonly name: Buffer;
  private depth = 0;
  /** Depth inside the answer objects; 0 before the first bracket. */
  private memberDepth = 0;
  private isInString = false;
  private isEscaped = false;
  private isKey = false;
  /** Bytes of a key at the depth that matters; undefined elsewhere. */
  private key: number[] | undefined;
  private lastKey = '';
  /** Inside the value that is replaced. */
  private isReplacing = false;

  constructor(callersModel: string) {
    this.name = Buffer.from(JSON.stringify(callersModel));
  }

  /** The pieces to send for a chunk. */
  push(chunk: Uint8Array): Uint8Array[] {
    const out: Uint8Array[] = [];
    /** Start of what is not yet in `out`. */
    let from = 0;
    let at = 0;
    while (at < chunk.length) {
      if (this.isInString) {
        const end = this.stringEnd(chunk, at);
        if (end === chunk.length) at = end;
        else {
          at = end + 1;
          this.isInString = false;
          if (this.isReplacing) {
            this.isReplacing = false;
            from = at;
          } else if (this.key !== undefined) {
            this.lastKey = Buffer.from(this.key).toString();
            this.key = undefined;
          }
        }
        continue;
      }
      const byte = chunk[at] ?? 0;
      if (byte === QUOTE) {
        this.isInString = true;
        const isMember = this.depth > 0 && this.depth === this.memberDepth;
        if (isMember && this.isKey) this.key = [];
        else if (isMember && this.lastKey === 'model') {
          this.isReplacing = true;
          out.push(chunk.subarray(from, at), this.name);
        }
      } else this.step(byte);
      at += 1;
    }
    if (!this.isReplacing && from < chunk.length) out.push(chunk.subarray(from));
    return out.filter(({ length }) => length > 0);
  }

  private step(byte: number): void {
    switch (byte) {
      case OPEN_OBJECT:
      case OPEN_ARRAY:
        this.depth += 1;
        if (this.memberDepth === 0) this.memberDepth = byte === OPEN_OBJECT ? 1 : 2;
        this.isKey = byte === OPEN_OBJECT;
        break;
      case CLOSE_OBJECT:
      case CLOSE_ARRAY:
        this.depth -= 1;
        break;
      case COMMA:
        // Between the members of an object, or the elements of a list: there no key matters.
        this.isKey = true;
        this.lastKey = '';
        break;
      case COLON:
        this.isKey = false;
        break;
      default:
    }
  }

  /** Index of the quote that ends a string, or the chunk's length. Long strings are crossed with a search. */
  private stringEnd(chunk: Uint8Array, start: number): number {
    let at = start;
    if (this.key === undefined && !this.isEscaped) {
      const quote = chunk.indexOf(QUOTE, at);
      const end = quote === -1 ? chunk.length : quote;
      const slash = chunk.subarray(at, end).indexOf(BACKSLASH);
      if (slash === -1) return end;
      at += slash;
    }
    for (; at < chunk.length; at++) {
      const byte = chunk[at] ?? 0;
      if (this.isEscaped) this.isEscaped = false;
      else if (byte === BACKSLASH) this.isEscaped = true;
      else if (byte === QUOTE) return at;
      if (this.key !== undefined && this.key.length < MAX_KEY_BYTES) this.key.push(byte);
    }
    return chunk.length;
  }
}
