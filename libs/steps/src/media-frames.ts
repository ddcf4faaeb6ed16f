import { z } from 'zod';

/** Longest header of a frame. */
const maxHeaderBytes = 64 * 1024;

/** A clean type token: it becomes part of a JSON string. */
const mediaType = /^[\w!#$&^.+-]+\/[\w!#$&^.+-]+$/;

const frameHeader = z.object({
  content_type: z.string().regex(mediaType),
  byte_length: z.int().nonnegative(),
});

/** One item of an answer in frames. */
export interface MediaFrame {
  readonly contentType: string;
  readonly bytes: Buffer;
}

/** What is being filled: the length of a header, a header, or an item of a type. */
type State = 'length' | 'header' | { readonly contentType: string };

/**
 * Takes an answer of `application/x-media-frames` apart while it arrives: per item four bytes with the length of a JSON
 * header, the header, and the bytes of the item, which are copied once, to their place.
 */
export class MediaFrames {
  readonly #frames: MediaFrame[] = [];
  readonly #expected: number;
  #bytesLeft: number;
  #part = Buffer.allocUnsafe(4);
  #filled = 0;
  #state: State = 'length';

  /** Refuses more items than `expected`, and more bytes of all of them than `maxBytes`. */
  constructor(expected: number, maxBytes: number) {
    this.#expected = expected;
    this.#bytesLeft = maxBytes;
  }

  /** Takes the next bytes. @throws Error when they are no frames. */
  add(chunk: Uint8Array): void {
    for (let at = 0; at < chunk.length;) {
      const piece = chunk.subarray(at, at + this.#part.length - this.#filled);
      this.#part.set(piece, this.#filled);
      this.#filled += piece.length;
      at += piece.length;
      while (this.#filled === this.#part.length && !this.isWhole) this.#next();
      if (this.isWhole && at < chunk.length) throw new Error('more frames than items');
    }
  }

  get isWhole(): boolean {
    return this.#frames.length === this.#expected;
  }

  /** All items, in order. @throws Error when some are missing. */
  end(): readonly MediaFrame[] {
    if (!this.isWhole) throw new Error('fewer frames than items');
    return this.#frames;
  }

  #next(): void {
    const part = this.#part;
    if (this.#state === 'length') {
      const length = part.readUInt32BE();
      if (length === 0 || length > maxHeaderBytes) throw new Error('the length of a header');
      this.#fill(length, 'header');
    } else if (this.#state === 'header') {
      const header = frameHeader.parse(JSON.parse(part.toString('utf8')));
      this.#bytesLeft -= header.byte_length;
      if (this.#bytesLeft < 0) throw new Error('more bytes than asked for');
      this.#fill(header.byte_length, { contentType: header.content_type });
    } else {
      this.#frames.push({ contentType: this.#state.contentType, bytes: part });
      this.#fill(4, 'length');
    }
  }

  #fill(length: number, state: State): void {
    this.#part = Buffer.allocUnsafeSlow(length);
    this.#filled = 0;
    this.#state = state;
  }
}
