import { type IncomingMessage, type ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import { readBody } from './read-body.ts';
import {
  type BodyMeter,
  declaredBytes,
  incomplete,
  type PendingBodies,
  tooLarge,
} from './upload.ts';

/** A request body that nobody has begun to read. It is taken once, whole or while it arrives. */
export class UnreadBody {
  readonly #request: IncomingMessage;
  readonly #response: ServerResponse;
  readonly #limitBytes: number;
  readonly #pending: PendingBodies;
  readonly #meter: BodyMeter | undefined;
  /** Bytes that were taken so far. */
  receivedBytes = 0;

  constructor(
    request: IncomingMessage,
    response: ServerResponse,
    limitBytes: number,
    pending: PendingBodies,
    meter?: BodyMeter,
  ) {
    this.#request = request;
    this.#response = response;
    this.#limitBytes = limitBytes;
    this.#pending = pending;
    this.#meter = meter;
  }

  /** The length that the client declared; undefined when it sends chunks. */
  get byteLength(): number | undefined {
    return declaredBytes(this.#request);
  }

  /** Reads the body as `readBody` does, with its errors. */
  async read(): Promise<Buffer> {
    const body = await readBody(
      this.#request,
      this.#response,
      this.#limitBytes,
      this.#pending,
      this.#meter,
    );
    this.receivedBytes = body.length;
    return body;
  }

  /**
   * Hands the body on as it comes, packed or not, no faster than it is taken; whoever takes it destroys
   * the stream. A body that passes the limit, is too slow or breaks off ends the stream and tells
   * `onFault` why.
   *
   * @throws RequestError 413 when the declared length is over the limit.
   */
  stream(onFault: (reason: Error) => void): Readable {
    const request = this.#request;
    const limitBytes = this.#limitBytes;
    if ((this.byteLength ?? 0) > limitBytes) throw tooLarge(limitBytes);
    if (request.headers.expect !== undefined) this.#response.writeContinue();

    const { socket } = request;
    const settle = (): void => {
      this.#pending.delete(socket);
      request.off('data', onData).off('end', onEnd).off('close', onClose).off('error', onClose);
    };
    const fail = (reason: Error): void => {
      settle();
      onFault(reason);
      stream.destroy();
    };
    const onData = (chunk: Buffer): void => {
      this.receivedBytes += chunk.length;
      if (this.receivedBytes > limitBytes) fail(tooLarge(limitBytes));
      else if (!stream.push(chunk)) request.pause();
    };
    const onEnd = (): void => {
      settle();
      stream.push(null);
    };
    const onClose = (): void => fail(incomplete());

    const stream = new Readable({
      read: () => void request.resume(),
      destroy(error, callback) {
        settle();
        callback(error);
      },
    });
    // Whoever destroys the stream knows why.
    stream.on('error', () => {});
    this.#pending.set(socket, fail);
    request.on('data', onData).on('end', onEnd).on('close', onClose).on('error', onClose);
    request.pause();
    return stream;
  }
}
