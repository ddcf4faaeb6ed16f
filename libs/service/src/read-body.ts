import { type IncomingMessage, type ServerResponse } from 'node:http';
import { type Socket } from 'node:net';
import { RequestError } from './request-error.ts';

const noBody = Buffer.alloc(0);

/** Who waits for more of an upload, by connection: Node reports a slow or broken one by socket. */
export type PendingBodies = WeakMap<Socket, (error: Error) => void>;

/**
 * Reads a request body whole, whatever its content type; a request without one gives an empty
 * buffer. Refuses a body over the limit by its declared length before reading, or as soon as the
 * limit is passed (413), and one that the client cuts off (400).
 */
export function readBody(
  request: IncomingMessage,
  response: ServerResponse,
  limitBytes: number,
  pending: PendingBodies,
): Promise<Buffer> {
  const declared = request.headers['content-length'];
  if (declared === undefined && request.headers['transfer-encoding'] === undefined) {
    return Promise.resolve(noBody);
  }
  if (Number(declared) > limitBytes) return Promise.reject(tooLarge(limitBytes));
  // The server announces 100 only here, so that refusals before the body come without it.
  if (request.headers.expect !== undefined) response.writeContinue();

  return new Promise((resolve, reject) => {
    const { socket } = request;
    const chunks: Buffer[] = [];
    let receivedBytes = 0;

    const settle = (): void => {
      pending.delete(socket);
      request.off('data', onData).off('end', onEnd).off('close', onClose).off('error', onClose);
    };
    const fail = (error: Error): void => {
      settle();
      reject(error);
    };
    const onData = (chunk: Buffer): void => {
      receivedBytes += chunk.length;
      if (receivedBytes > limitBytes) fail(tooLarge(limitBytes));
      else chunks.push(chunk);
    };
    const onEnd = (): void => {
      settle();
      const [first] = chunks;
      resolve(chunks.length === 1 && first ? first : Buffer.concat(chunks, receivedBytes));
    };
    const onClose = (): void => {
      fail(new RequestError(400, 'REQUEST_BODY_INCOMPLETE', 'the request body ended early'));
    };

    pending.set(socket, fail);
    request.on('data', onData).on('end', onEnd).on('close', onClose).on('error', onClose);
  });
}

function tooLarge(limitBytes: number): RequestError {
  return new RequestError(
    413,
    'REQUEST_TOO_LARGE',
    `the request body is larger than the limit of ${limitBytes} bytes`,
  );
}
