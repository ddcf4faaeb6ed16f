/** Bytes of an answer's end that are kept: usage stands there, whole events of it and the `[DONE]` after it. */
export const answerTailBytes = 4_096;

/** Keeps the last bytes of an answer that is handed on; costs one small copy for each chunk after the first. */
export class AnswerTail {
  /** Most answers that are not streamed come in one piece. */
  #first: Uint8Array | undefined;
  /** Written round and round. */
  #ring: Buffer | undefined;
  /** Bytes that the ring was given. */
  #takenBytes = 0;

  /** Takes the next bytes of the answer; they must not change afterwards. */
  add(chunk: Uint8Array): void {
    if (this.#ring) this.#copy(this.#ring, chunk);
    else if (!this.#first) this.#first = chunk;
    else {
      this.#ring = Buffer.allocUnsafe(answerTailBytes);
      this.#copy(this.#ring, this.#first);
      this.#first = undefined;
      this.#copy(this.#ring, chunk);
    }
  }

  /** The last bytes, `answerTailBytes` or all of a shorter answer. */
  get bytes(): Buffer {
    if (this.#ring) {
      if (this.#takenBytes <= answerTailBytes) return this.#ring.subarray(0, this.#takenBytes);
      const end = this.#takenBytes % answerTailBytes;
      return Buffer.concat([this.#ring.subarray(end), this.#ring.subarray(0, end)]);
    }
    const { buffer, byteOffset, length } = this.#first ?? noBytes;
    const kept = Math.min(length, answerTailBytes);
    return Buffer.from(buffer, byteOffset + length - kept, kept);
  }

  #copy(ring: Buffer, chunk: Uint8Array): void {
    const kept = chunk.length > answerTailBytes ? chunk.subarray(-answerTailBytes) : chunk;
    const at = this.#takenBytes % answerTailBytes;
    const room = answerTailBytes - at;
    this.#takenBytes += kept.length;
    if (kept.length <= room) ring.set(kept, at);
    else {
      ring.set(kept.subarray(0, room), at);
      ring.set(kept.subarray(room));
    }
  }
}

const noBytes = new Uint8Array();
