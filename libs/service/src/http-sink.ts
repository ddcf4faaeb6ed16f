import { type ServerResponse } from 'node:http';
import { TLSSocket } from 'node:tls';
import { requestIdHeader } from '@llm-d/gateway';
import { type ResponseSink } from '@llm-d/pipeline';

/** How long a client may take to fetch the last bytes of an answer that was cut. */
const cutFlushMs = 1_000;

/** What is added to an answer on its way out. */
export interface AnswerExtras {
  /** Headers besides those that the answer has; names and values in turn. */
  headers(given: readonly string[]): readonly string[];
  /** Comes before the end of a whole answer. */
  lastBytes(): Uint8Array | undefined;
}

/**
 * Writes an answer to a Node response as it comes: no copy, no re-framing, the client's pace. The
 * response must not be used by anyone else (`reply.hijack()`).
 */
export class HttpSink implements ResponseSink {
  readonly #response: ServerResponse;
  #requestId: string;
  #standing: readonly string[] = [];
  #hasLength = false;
  /** To be set before the answer starts. */
  extras: AnswerExtras | undefined;
  /** Of the answer that was started. */
  contentType: string | undefined;
  /** Body bytes handed to the client's connection so far. */
  sentBytes = 0;

  constructor(response: ServerResponse, requestId: string) {
    this.#response = response;
    this.#requestId = requestId;
  }

  get isStarted(): boolean {
    return this.#response.headersSent;
  }

  /** Plain answers keep nothing alive. */
  get keepAlive(): 'armed' | 'begun' | undefined {
    return undefined;
  }

  /** The status that was sent; 0 before. */
  get status(): number {
    return this.isStarted ? this.#response.statusCode : 0;
  }

  /** The request id stands on every answer and replaces an upstream's, which may have a leg suffix. */
  start(status: number, headers: readonly string[]): void {
    const sent = [requestIdHeader, this.#requestId, ...this.#standing];
    for (let i = 0; i + 1 < headers.length; i += 2) {
      const name = headers[i] ?? '';
      const value = headers[i + 1] ?? '';
      const lowerName = name.toLowerCase();
      if (lowerName === 'content-length') this.#hasLength = true;
      else if (lowerName === 'content-type') this.contentType = value;
      if (lowerName !== requestIdHeader) sent.push(name, value);
    }
    if (this.extras) sent.push(...this.extras.headers(headers));
    this.#response.writeHead(status, sent);
  }

  write(chunk: Uint8Array): boolean {
    this.sentBytes += chunk.length;
    return this.#response.write(chunk);
  }

  onDrain(callback: () => void): void {
    this.#response.on('drain', callback);
  }

  end(isBroken = false): void {
    const last = isBroken ? undefined : this.extras?.lastBytes();
    if (last) this.write(last);
    this.#response.end();
  }

  identify(requestId: string, headers: readonly string[]): void {
    this.#requestId = requestId;
    this.#standing = headers;
  }

  sent(): Promise<boolean> {
    const response = this.#response;
    if (response.writableFinished) return Promise.resolve(true);
    if (response.destroyed) return Promise.resolve(false);
    return new Promise((resolve) => {
      response.once('close', () => {
        resolve(response.writableFinished);
      });
      response.once('finish', () => {
        resolve(true);
      });
    });
  }

  /** What was written still goes out; the missing end of the body tells the client that it is cut. */
  abort(): void {
    const response = this.#response;
    const { socket } = response;
    if (!socket || socket.destroyed) return;
    if (!response.chunkedEncoding && !this.#hasLength) {
      // Neither chunks nor a length: only a reset differs from a whole answer, or with TLS a missing farewell.
      if (socket instanceof TLSSocket) socket.destroy();
      else socket.resetAndDestroy();
      return;
    }
    const timer = setTimeout(() => socket.destroy(), cutFlushMs);
    socket.once('close', () => {
      clearTimeout(timer);
    });
    socket.destroySoon();
  }
}
