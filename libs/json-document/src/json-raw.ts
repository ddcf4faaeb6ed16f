import { type JsonSpan } from './json-span.ts';

/** Serialised JSON as a list of byte pieces; whoever holds it must not change them. */
export class JsonRaw {
  readonly chunks: readonly Uint8Array[];
  readonly byteLength: number;

  /** The chunks together are one valid JSON value; this is not checked. */
  constructor(chunks: readonly Uint8Array[]) {
    this.chunks = chunks;
    let byteLength = 0;
    for (const chunk of chunks) byteLength += chunk.length;
    this.byteLength = byteLength;
  }

  /** The text in one piece; copies only when there are several chunks. */
  toBytes(): Uint8Array {
    const [first] = this.chunks;
    return this.chunks.length === 1 && first !== undefined ? first : Buffer.concat(this.chunks);
  }

  toString(): string {
    return Buffer.from(this.toBytes()).toString('utf8');
  }
}

/** A value that can be written as JSON: plain values, and parts that keep their bytes. */
export type JsonInput =
  | string
  | number
  | boolean
  | null
  | JsonRaw
  | JsonSpan
  | readonly JsonInput[]
  | { readonly [key: string]: JsonInput | undefined };
