const [lineFeed, carriageReturn, space] = [0x0a, 0x0d, 0x20];

/** Cuts an event stream at the blank lines that end its events, wherever the chunks were cut. */
export class EventSplitter {
  #pieces: Uint8Array[] = [];
  /** Bytes of the line that is being read, without carriage returns. */
  #lineBytes = 0;
  /** Bytes of an event whose end has not come. */
  pendingBytes = 0;

  /** The events that end in this chunk, each with its blank line. */
  push(chunk: Uint8Array): Uint8Array[] {
    const events: Uint8Array[] = [];
    let [start, lineStart] = [0, 0];
    for (let end; (end = chunk.indexOf(lineFeed, lineStart)) >= 0; lineStart = end + 1) {
      this.#readLine(chunk, lineStart, end);
      if (this.#lineBytes === 0) {
        this.#keep(chunk.subarray(start, end + 1));
        start = end + 1;
        events.push(this.rest());
      }
      this.#lineBytes = 0;
    }
    this.#readLine(chunk, lineStart, chunk.length);
    if (start < chunk.length) this.#keep(chunk.subarray(start));
    return events;
  }

  /** What came after the last whole event. */
  rest(): Uint8Array {
    const [first] = this.#pieces;
    const rest = this.#pieces.length === 1 && first ? first : Buffer.concat(this.#pieces);
    this.#pieces = [];
    this.pendingBytes = 0;
    return rest;
  }

  #keep(piece: Uint8Array): void {
    this.#pieces.push(piece);
    this.pendingBytes += piece.length;
  }

  #readLine(chunk: Uint8Array, start: number, end: number): void {
    const isReturn = end === start + 1 && chunk[start] === carriageReturn;
    if (!isReturn) this.#lineBytes += end - start;
  }
}

/** Positions of one line's data in an event. */
export interface DataLine {
  readonly start: number;
  readonly end: number;
}

/** Where the data of an event lies; a comment has none. */
export function dataLines(event: Uint8Array): DataLine[] {
  const lines: DataLine[] = [];
  for (let at = 0; at < event.length;) {
    const next = event.indexOf(lineFeed, at);
    const lineEnd = next < 0 ? event.length : next;
    if (field.every((byte, index) => event[at + index] === byte)) {
      const start = at + field.length + (event[at + field.length] === space ? 1 : 0);
      lines.push({ start, end: event[lineEnd - 1] === carriageReturn ? lineEnd - 1 : lineEnd });
    }
    at = lineEnd + 1;
  }
  return lines;
}

const field = Buffer.from('data:');
