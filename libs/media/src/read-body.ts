import { pipeline, type Readable, type Transform } from 'node:stream';
import { createBrotliDecompress, createGunzip, createInflate } from 'node:zlib';
import { type Dispatcher } from 'undici';
import { type Reservation, type TotalShare } from './budget.ts';
import { MediaError } from './media-error.ts';
import { type MediaLimits } from './options.ts';
import { RateWatch } from './rate-watch.ts';

/** What bounds the reading of one body. */
export interface BodyBounds {
  /** Begins the message of a failure, for example `downloading image`. */
  readonly doing: string;
  readonly maxBytes: number;
  /** References of the call that this body serves; each counts towards the total. */
  readonly copies: number;
  readonly total: TotalShare;
  readonly memory: Reservation;
  readonly limits: MediaLimits;
  readonly signal: AbortSignal;
  /** Ends the download, with the reason that reading then rejects with. */
  readonly abort: (reason: MediaError) => void;
}

/** A whole body. */
export interface Body {
  readonly bytes: Buffer;
  /** Neither a length nor chunks nor a coding told where the end is, so a cut looks like one. */
  readonly isCloseDelimited: boolean;
}

/** A coded body of incompressible bytes may be a little longer than what it decodes to. */
const codingSlackBytes = 64 * 1024;

const decoders: Readonly<Record<string, () => Transform>> = {
  gzip: createGunzip,
  'x-gzip': createGunzip,
  deflate: createInflate,
  br: createBrotliDecompress,
};

const ignore = (): void => undefined;

/** Lets go of a body that nobody reads, and of its socket. */
export function discard(body: Readable): void {
  body.on('error', ignore);
  body.destroy();
}

/** One header value as text; undefined when it is absent or repeated. */
export function singleHeader(
  headers: Dispatcher.ResponseData['headers'],
  name: string,
): string | undefined {
  const value = headers[name];
  return typeof value === 'string' ? value : undefined;
}

function decoderOf(headers: Dispatcher.ResponseData['headers']): Transform | undefined {
  const coding = headers['content-encoding'];
  if (coding === undefined || coding === '') {
    return undefined;
  }
  const name = String(coding).trim().toLowerCase();
  if (name === 'identity') {
    return undefined;
  }
  const create = Object.hasOwn(decoders, name) ? decoders[name] : undefined;
  if (create === undefined) {
    throw new MediaError(
      'media_protocol_error',
      'downloading media: the origin used a content coding that was not asked for',
    );
  }
  return create();
}

/** Hands every piece of a stream on, and pauses the stream while that takes time. Failures end the stream. */
function drained(
  source: Readable,
  take: (chunk: Buffer) => Promise<void> | undefined,
): Promise<void> {
  return new Promise((resolve, reject) => {
    // It broke off while something else was waited for, and will not say so again.
    if (source.destroyed) {
      reject(source.errored ?? new Error('the body was closed'));
      return;
    }
    // Not its async iterator, which costs several promises for each piece.
    const fail = (error: unknown): void => {
      source.destroy(error as Error);
    };
    source.on('data', (chunk: Buffer) => {
      try {
        const wait = take(chunk);
        if (wait === undefined) return;
        source.pause();
        wait.then(() => source.resume(), fail);
      } catch (error) {
        fail(error);
      }
    });
    source.once('error', reject);
    source.once('end', resolve);
  });
}

/**
 * Reads a response's body within its bounds, decoding one content coding, and counts what comes out. Refuses
 * a length that is too large before the first byte. Rejects with MediaError or with what undici and zlib
 * raise; the socket is released in any case.
 */
export async function readBody(
  { headers, body }: Dispatcher.ResponseData,
  bounds: BodyBounds,
): Promise<Body> {
  const { limits, maxBytes, memory, signal, total, copies } = bounds;
  const tooLarge = (actual: number): MediaError =>
    new MediaError('media_too_large', `${bounds.doing}: it exceeds ${maxBytes} bytes`, {
      limit: maxBytes,
      actual,
    });

  let decoder: Transform | undefined;
  let length: number | undefined;
  try {
    decoder = decoderOf(headers);
    const lengthText = singleHeader(headers, 'content-length');
    // After decoding, the length of the coded body says nothing.
    length = decoder === undefined && lengthText !== undefined ? Number(lengthText) : undefined;
    if (length !== undefined) {
      if (length > maxBytes) {
        throw tooLarge(length);
      }
      total.check(length * copies);
      await memory.grow(length, signal);
    }
  } catch (error) {
    discard(body);
    throw error;
  }

  const watch = new RateWatch(limits.minRateBytesPerSecond, limits.minRateWindowMs, () => {
    bounds.abort(
      new MediaError('media_timeout', `${bounds.doing}: the origin sends too slowly`, {
        limit: limits.minRateBytesPerSecond,
        retryable: false,
      }),
    );
  });
  // One buffer of the promised length costs half of what chunks and their concatenation do.
  const whole = length === undefined ? undefined : Buffer.allocUnsafeSlow(length);
  const chunks: Buffer[] = [];
  let byteLength = 0;
  /** Takes a piece; what it returns has to come to its end before the next one. */
  const take = (chunk: Buffer): Promise<void> | undefined => {
    const end = byteLength + chunk.length;
    if (end > maxBytes) {
      throw tooLarge(end);
    }
    total.add(chunk.length * copies);
    if (whole === undefined) {
      chunks.push(chunk);
    } else {
      chunk.copy(whole, byteLength);
    }
    byteLength = end;
    return memory.covers(end) ? undefined : watch.whilePaused(memory.grow(end, signal));
  };
  let codedBytes = 0;
  body.on('data', (chunk: Buffer) => {
    watch.count(chunk.length);
    codedBytes += chunk.length;
    if (codedBytes > maxBytes + codingSlackBytes) {
      body.destroy(tooLarge(codedBytes));
    }
  });
  // The stream behind it tells of its failures.
  body.on('error', ignore);
  try {
    await drained(decoder === undefined ? body : pipeline(body, decoder, ignore), take);
  } finally {
    watch.stop();
  }
  const isCloseDelimited =
    decoder === undefined && length === undefined && headers['transfer-encoding'] === undefined;
  const bytes = whole?.subarray(0, byteLength) ?? Buffer.concat(chunks, byteLength);
  return { bytes, isCloseDelimited };
}
