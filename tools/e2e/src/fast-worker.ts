import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { type AddressInfo } from 'node:net';

/** One event of an answer, 64 KiB with its frame. */
const event = Buffer.from(`data: {"text":"${'x'.repeat(65_536 - 20)}"}\n\n`);

/** A worker that writes as fast as it may, and keeps no byte of what it is sent. */
export class FastWorker {
  /** Bytes that the worker has written, by request id. */
  readonly written = new Map<string, number>();
  /** Most requests that were open at once. */
  mostAtOnce = 0;
  #open = 0;
  readonly #server = createServer((request, response) => void this.#serve(request, response));
  readonly #answerBytes: number;

  /** Streams have `answerBytes`; other answers are short. */
  constructor(answerBytes: number) {
    this.#answerBytes = answerBytes;
  }

  /** Bytes that the worker has written for all requests. */
  get writtenBytes(): number {
    return [...this.written.values()].reduce((sum, bytes) => sum + bytes, 0);
  }

  /** Listens on a free port of the loopback and resolves with the address. */
  async start(): Promise<string> {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  close(): void {
    this.#server.close();
    this.#server.closeAllConnections();
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    this.mostAtOnce = Math.max(this.mostAtOnce, ++this.#open);
    response.once('close', () => (this.#open -= 1));
    // The first bytes say whether the answer is to be a stream; there is no need to keep the rest.
    let start = '';
    request.on('data', (piece: Buffer) => {
      if (start.length < 100) start += piece.toString('latin1', 0, 100);
    });
    await new Promise((resolve) => request.once('end', resolve).once('error', resolve));
    if (!start.includes('"stream":true')) {
      response.setHeader('content-type', 'application/json').end('{"choices":[]}');
      return;
    }
    response.setHeader('content-type', 'text/event-stream');
    const closed = once(response, 'close');
    response.on('error', () => undefined);
    const id = String(request.headers['x-request-id']);
    for (let bytes = 0; bytes < this.#answerBytes && !response.destroyed; bytes += event.length) {
      const isTaken = response.write(event);
      this.written.set(id, bytes + event.length);
      if (!isTaken) {
        await Promise.race([new Promise((resolve) => response.once('drain', resolve)), closed]);
      }
    }
    response.end('data: [DONE]\n\n');
  }
}
