/** Bytes of an answer's end that are kept: usage stands there, whole events of it and the `[DONE]` after it. */
export const answerTailBytes = 4_096;

/** Keeps the last bytes of an answer that is handed on; costs one small copy for each chunk after the first. */
export class AnswerTail {
  /** Most answers that are not streamed come in one piece. */
  #first: Uint8Array | undefined;
  #buffer: Buffer | undefined;
  #usedBytes = 0;

  /** Takes the next bytes of the answer; they must not change afterwards. */
  add(chunk: Uint8Array): void {
    if (this.#buffer) this.#copy(this.#buffer, chunk);
    else if (!this.#first) this.#first = chunk;
    else {
      this.#buffer = Buffer.allocUnsafe(2 * answerTailBytes);
      this.#copy(this.#buffer, this.#first);
      this.#first = undefined;
      this.#copy(this.#buffer, chunk);
    }
  }

  /** The last bytes, `answerTailBytes` or all of a shorter answer. */
  get bytes(): Buffer {
    const { buffer, byteOffset, length } =
      this.#first ?? this.#buffer?.subarray(0, this.#usedBytes) ?? noBytes;
    const kept = Math.min(length, answerTailBytes);
    return Buffer.from(buffer, byteOffset + length - kept, kept);
  }

  #copy(buffer: Buffer, chunk: Uint8Array): void {
    const kept = chunk.length > answerTailBytes ? chunk.subarray(-answerTailBytes) : chunk;
    if (this.#usedBytes + kept.length > buffer.length) {
      buffer.copyWithin(0, this.#usedBytes - answerTailBytes, this.#usedBytes);
      this.#usedBytes = answerTailBytes;
    }
    buffer.set(kept, this.#usedBytes);
    this.#usedBytes += kept.length;
  }
}

const noBytes = new Uint8Array();
