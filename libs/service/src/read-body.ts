import { type IncomingMessage, type ServerResponse } from 'node:http';
import { decoderOf } from './request-coding.ts';
import { RequestError } from './request-error.ts';
import {
  announcesBody,
  type BodyMeter,
  declaredBytes,
  incomplete,
  type PendingBodies,
  tooLarge,
} from './upload.ts';

const noBody = Buffer.alloc(0);

/** How many times its packed size a body may have; prompts in the wild stay below 50. */
const maxUnpackRatio = 200;

/** Up to this size the ratio does not matter: short repetitive texts pack well and harm nobody. */
const ratioFreeBytes = 1_048_576;

/**
 * Reads a request body whole and unpacks it, whatever its content type; a request without one gives
 * an empty buffer. The limit holds for what arrives and for what comes out of it: a body over it is
 * refused by its declared length before reading, or as soon as the limit is passed (413), one whose
 * coding is not known by 415, one that is damaged or that the client cuts off by 400. The meter hears of the
 * announced length before any byte is read, then of what goes beyond it.
 */
export async function readBody(
  request: IncomingMessage,
  response: ServerResponse,
  limitBytes: number,
  pending: PendingBodies,
  meter?: BodyMeter,
): Promise<Buffer> {
  if (!announcesBody(request)) return noBody;
  const declared = declaredBytes(request) ?? 0;
  if (declared > limitBytes) throw tooLarge(limitBytes);
  const refusal = meter?.hold(declared);
  if (refusal) throw refusal;
  const decoder = declaredBytes(request) === 0 ? undefined : decoderOf(request);
  // The server announces 100 only here, so that refusals before the body come without it.
  if (request.headers.expect !== undefined) response.writeContinue();

  return new Promise((resolve, reject) => {
    const { socket } = request;
    const chunks: Buffer[] = [];
    // A body of known length that comes in pieces is put together here at once, not held twice at its end.
    let whole: Buffer | undefined;
    let [receivedBytes, byteLength] = [0, 0];

    const settle = (): void => {
      pending.delete(socket);
      request.off('data', onData).off('end', onEnd).off('close', onClose).off('error', onClose);
      decoder?.destroy();
    };
    const fail = (error: Error): void => {
      settle();
      if (error instanceof RequestError) error.receivedBytes = receivedBytes;
      reject(error);
    };
    const isOver = (bytes: number): boolean => {
      const error =
        bytes > limitBytes
          ? tooLarge(limitBytes)
          : bytes > declared
            ? meter?.hold(bytes)
            : undefined;
      if (error) fail(error);
      return error !== undefined;
    };
    const onData = (chunk: Buffer): void => {
      receivedBytes += chunk.length;
      if (isOver(receivedBytes)) return;
      if (decoder) {
        if (!decoder.write(chunk)) request.pause();
      } else if (chunk.length >= declared) chunks.push(chunk);
      else {
        whole ??= Buffer.allocUnsafeSlow(declared);
        whole.set(chunk, receivedBytes - chunk.length);
      }
    };
    const onUnpacked = (chunk: Buffer): void => {
      byteLength += chunk.length;
      if (isOver(byteLength)) return;
      if (byteLength > Math.max(ratioFreeBytes, maxUnpackRatio * receivedBytes)) fail(bomb());
      else chunks.push(chunk);
    };
    const onWhole = (): void => {
      settle();
      const [first] = chunks;
      resolve(whole ?? (chunks.length === 1 && first ? first : Buffer.concat(chunks)));
    };
    const onEnd = (): void => {
      request.off('close', onClose);
      if (decoder) decoder.end();
      else onWhole();
    };
    const onClose = (): void => fail(incomplete());

    pending.set(socket, fail);
    request.on('data', onData).on('end', onEnd).on('close', onClose).on('error', onClose);
    decoder
      ?.on('data', onUnpacked)
      .on('drain', () => request.resume())
      .on('end', onWhole)
      .on('error', (cause) => fail(damaged(cause)));
  });
}

function bomb(): RequestError {
  return new RequestError(
    413,
    'REQUEST_TOO_LARGE',
    `the request body unpacks to more than ${maxUnpackRatio} times its size`,
  );
}

function damaged(cause: Error): RequestError {
  return new RequestError(
    400,
    'REQUEST_BODY_DAMAGED',
    'the request body cannot be unpacked: it is damaged, cut off or not what content-encoding says',
    { cause },
  );
}
