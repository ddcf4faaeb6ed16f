import { type ServerResponse } from 'node:http';

/** The client left before the answer was complete. */
export class ClientGone extends Error {
  override readonly name = 'ClientGone';
}

/** A fault cut the answer on purpose. */
export class CutByFault extends Error {
  override readonly name = 'CutByFault';
}

/**
 * One answer on its way out: keeps back-pressure, and its signal fires the moment the client leaves.
 */
export class Reply {
  readonly signal: AbortSignal;
  readonly #response: ServerResponse;
  #isTiny = false;

  constructor(response: ServerResponse, headers: Record<string, string>) {
    this.#response = response;
    const abort = new AbortController();
    this.signal = abort.signal;
    response.on('close', () => {
      if (!response.writableFinished) abort.abort(new ClientGone('the client left'));
    });
    for (const [name, value] of Object.entries(headers)) response.setHeader(name, value);
  }

  /** True once a status line went out. */
  get hasStarted(): boolean {
    return this.#response.headersSent;
  }

  get status(): number {
    return this.#response.statusCode;
  }

  /** Writes one byte at a time from here on (fault `tiny-chunks`). */
  useTinyChunks(): void {
    this.#isTiny = true;
  }

  /** Sends a whole JSON answer. */
  async json(status: number, body: unknown, headers: Record<string, string> = {}): Promise<void> {
    await this.text(status, 'application/json', JSON.stringify(body), headers);
  }

  /** Sends a whole answer of any type. */
  async text(
    status: number,
    contentType: string,
    text: string,
    headers: Record<string, string> = {},
  ): Promise<void> {
    const bytes = Buffer.from(text);
    this.#response.writeHead(status, {
      'content-type': contentType,
      'content-length': bytes.length,
      ...headers,
    });
    await this.#write(bytes);
    this.end();
  }

  /** Sends the headers of an event stream. */
  startStream(): void {
    this.#response.writeHead(200, {
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-cache',
    });
    this.#response.flushHeaders();
  }

  /** Sends one event, with a name where it has one; resolves when the socket can take more. */
  frame(data: unknown, name?: string): Promise<void> {
    const text = typeof data === 'string' ? data : JSON.stringify(data);
    const nameLine = name === undefined ? '' : `event: ${name}\n`;
    return this.#write(Buffer.from(`${nameLine}data: ${text}\n\n`));
  }

  /** Ends the answer. */
  end(): void {
    this.#response.end();
  }

  /** Cuts the connection. */
  destroy(): void {
    this.#response.destroy();
  }

  async #write(bytes: Buffer): Promise<void> {
    if (!this.#isTiny) return this.#writeOnce(bytes);
    for (let at = 0; at < bytes.length; at += 1) {
      await this.#writeOnce(bytes.subarray(at, at + 1));
      await new Promise((resolve) => setImmediate(resolve));
    }
  }

  async #writeOnce(bytes: Buffer): Promise<void> {
    this.signal.throwIfAborted();
    if (this.#response.write(bytes)) return;
    await new Promise<void>((resolve, reject) => {
      const onAbort = (): void => {
        this.#response.off('drain', onDrain);
        reject(this.signal.reason as Error);
      };
      const onDrain = (): void => {
        this.signal.removeEventListener('abort', onAbort);
        resolve();
      };
      this.signal.addEventListener('abort', onAbort, { once: true });
      this.#response.once('drain', onDrain);
    });
  }
}
