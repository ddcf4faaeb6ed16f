import { BadUpstreamAnswerError, type ResponseSink } from '@llm-d/pipeline';

/** Bytes of the answers of one batch that are held at a time. */
export const maxBatchBytes = 64 * 1024 * 1024;

/** Counts what a batch holds, and ends the batch when that is too much. */
export class HeldBytes {
  readonly #limit: number;
  readonly #abort: (error: Error) => void;
  #held = 0;

  constructor(abort: (error: Error) => void, limit = maxBatchBytes) {
    this.#abort = abort;
    this.#limit = limit;
  }

  add(bytes: number): void {
    this.#held += bytes;
    if (this.#held <= this.#limit) return;
    this.#abort(
      new BadUpstreamAnswerError('decode', `the answers of a batch exceed ${this.#limit} bytes`),
    );
  }
}

/** An answer to one prompt of a batch that is kept until it is whole. */
export class PromptAnswer implements ResponseSink {
  status = 0;
  headers: readonly string[] = [];
  readonly #pieces: Uint8Array[] = [];
  #resume: (() => void) | undefined;
  protected readonly heldBytes: HeldBytes;

  constructor(heldBytes: HeldBytes) {
    this.heldBytes = heldBytes;
  }

  get isStarted(): boolean {
    return this.status !== 0;
  }

  /** The bytes so far. */
  get body(): Buffer {
    return Buffer.concat(this.#pieces);
  }

  start(status: number, headers: readonly string[]): void {
    this.status = status;
    this.headers = headers;
  }

  write(chunk: Uint8Array): boolean {
    this.#pieces.push(chunk);
    this.heldBytes.add(chunk.length);
    return true;
  }

  onDrain(callback: () => void): void {
    this.#resume = callback;
  }

  /** Lets the worker go on, if it is held back. */
  resume(): void {
    this.#resume?.();
  }

  end(): void {
    // Another call may use the worker's connection from here on.
    this.#resume = undefined;
  }

  abort(): void {
    this.#resume = undefined;
  }
}
