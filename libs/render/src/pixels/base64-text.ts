/** Bytes that are turned into text at a time: few enough to stay in the processor's cache, a multiple of 3. */
const PIECE_BYTES = 48 << 10;

/** Base64 text of bytes that come in parts; of the bytes themselves it holds one piece. */
export class Base64Text {
  private readonly text: Buffer<ArrayBuffer>;
  private readonly piece = Buffer.allocUnsafe(PIECE_BYTES);
  private filled = 0;
  private written = 0;

  /** Takes the length of all parts together, and memory to write to where it has room. */
  constructor(byteLength: number, spare?: ArrayBuffer) {
    const length = base64Length(byteLength);
    const memory = spare !== undefined && spare.byteLength >= length ? spare : undefined;
    this.text = Buffer.from(memory ?? new ArrayBuffer(length), 0, length);
  }

  append(bytes: Uint8Array): void {
    for (let read = 0; read < bytes.length;) {
      const taken = Math.min(bytes.length - read, PIECE_BYTES - this.filled);
      this.piece.set(
        taken === bytes.length ? bytes : bytes.subarray(read, read + taken),
        this.filled,
      );
      this.filled += taken;
      read += taken;
      if (this.filled === PIECE_BYTES) this.flush();
    }
  }

  /** The text as ASCII bytes, after the last part. */
  end(): Uint8Array<ArrayBuffer> {
    this.flush();
    return this.text;
  }

  private flush(): void {
    const text = this.piece.toString('base64', 0, this.filled);
    this.written += this.text.write(text, this.written, 'latin1');
    this.filled = 0;
  }
}

/** Length of the base64 text of so many bytes. */
export function base64Length(byteLength: number): number {
  return Math.ceil(byteLength / 3) * 4;
}
