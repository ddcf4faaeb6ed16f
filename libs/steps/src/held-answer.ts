import { type ResponseSink } from '@llm-d/pipeline';

/** Largest part of an answer that is kept back; a longer one goes on while it arrives. */
export const maxHeldBytes = 1_048_576;

/** Keeps an answer back until it is whole, so that one which breaks off can still become an error. */
export class HeldAnswer {
  readonly #sink: ResponseSink;
  readonly #status: number;
  readonly #headers: readonly string[];
  #chunks: Uint8Array[] = [];
  #bytes = 0;

  constructor(sink: ResponseSink, status: number, headers: readonly string[]) {
    this.#sink = sink;
    this.#status = status;
    this.#headers = headers;
  }

  /** False when the client reads slower. */
  write(chunk: Uint8Array): boolean {
    if (this.#bytes > maxHeldBytes) return this.#sink.write(chunk);
    this.#chunks.push(chunk);
    this.#bytes += chunk.length;
    return this.#bytes <= maxHeldBytes || this.#release();
  }

  end(): void {
    if (this.#bytes <= maxHeldBytes) this.#release();
    this.#sink.end();
  }

  #release(): boolean {
    this.#sink.start(this.#status, this.#headers);
    let isTaken = true;
    for (const chunk of this.#chunks) isTaken = this.#sink.write(chunk);
    this.#chunks = [];
    return isTaken;
  }
}
