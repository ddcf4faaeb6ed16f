import { UpstreamClient, type UpstreamOptions } from './upstream-client.ts';
import { type AnswerReceiver, type StreamFlow, type UpstreamRequest } from './upstream-request.ts';

/** A client with generous limits; for tests of this package. */
export function clientOf(address: string, options: Partial<UpstreamOptions> = {}): UpstreamClient {
  return new UpstreamClient({
    address,
    connectTimeoutMs: 5_000,
    headersTimeoutMs: 0,
    bodyTimeoutMs: 0,
    idleTimeoutMs: 30_000,
    callTimeoutMs: 0,
    maxAnswerBytes: 1_048_576,
    ...options,
  });
}

/** A small POST; `pieces` is its body as the chunks that it is sent in. */
export function post(
  options: { pieces?: readonly string[]; headers?: readonly string[]; signal?: AbortSignal } = {},
): UpstreamRequest {
  const chunks = (options.pieces ?? ['{}']).map((piece) => Buffer.from(piece));
  return {
    path: '/v1/completions',
    headers: options.headers ?? [],
    body: { chunks, byteLength: chunks.reduce((sum, { length }) => sum + length, 0) },
    signal: options.signal ?? new AbortController().signal,
  };
}

/** A receiver that keeps what it is given and tells when bytes arrive. */
export class MemoryReceiver implements AnswerReceiver {
  status = 0;
  headers: readonly string[] = [];
  flow: StreamFlow | undefined;
  byteLength = 0;
  /** Whether the answer is taken; false drops it. */
  isWanted = true;
  readonly started = Promise.withResolvers<void>();
  readonly #pieces: Uint8Array[] = [];
  #arrival = Promise.withResolvers<void>();

  get text(): string {
    return Buffer.concat(this.#pieces).toString('utf8');
  }

  start(status: number, headers: readonly string[], flow: StreamFlow): boolean {
    [this.status, this.headers, this.flow] = [status, headers, flow];
    this.started.resolve();
    return this.isWanted;
  }

  data(chunk: Uint8Array): void {
    this.#pieces.push(chunk);
    this.byteLength += chunk.length;
    this.#arrival.resolve();
    this.#arrival = Promise.withResolvers();
  }

  /** Resolves when more bytes arrive. */
  next(): Promise<void> {
    return this.#arrival.promise;
  }

  /** Resolves when this text has arrived. */
  async seen(text: string): Promise<void> {
    while (!this.text.includes(text)) await this.next();
  }
}

/** undici takes a connection back in the turn after the answer's end. */
export const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
