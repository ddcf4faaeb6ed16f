import { type ServerResponse } from 'node:http';
import { HttpSink } from './http-sink.ts';

const comment = Buffer.from(': keep-alive\n\n');
const streamHeaders = [
  ...['content-type', 'text/event-stream; charset=utf-8', 'cache-control', 'no-cache'],
];

/**
 * A sink for a client that asked for a stream: while no answer has come it starts the event stream itself and sends
 * comments, which clients skip, so that nobody on the way takes the silence for a dead connection.
 */
export class KeepAliveSink extends HttpSink {
  readonly #response: ServerResponse;
  readonly #timer: NodeJS.Timeout;
  #state: 'armed' | 'begun' | undefined = 'armed';

  /** The first comment goes out after `intervalMs`. */
  constructor(response: ServerResponse, requestId: string, intervalMs: number) {
    super(response, requestId);
    this.#response = response;
    this.#timer = setInterval(() => this.#beat(), intervalMs);
    response.once('close', () => this.#stop());
  }

  override get keepAlive(): 'armed' | 'begun' | undefined {
    return this.#state;
  }

  override start(status: number, headers: readonly string[]): void {
    const hasBegun = this.#state === 'begun';
    this.#stop();
    if (!hasBegun) super.start(status, headers);
  }

  override end(isBroken?: boolean): void {
    this.#stop();
    super.end(isBroken);
  }

  override abort(): void {
    this.#stop();
    super.abort();
  }

  #beat(): void {
    if (this.#state === 'armed') {
      super.start(200, streamHeaders);
      this.#state = 'begun';
    }
    // A client that does not read needs no further sign.
    if (!this.#response.writableNeedDrain) this.write(comment);
  }

  #stop(): void {
    clearInterval(this.#timer);
    this.#state = undefined;
  }
}
