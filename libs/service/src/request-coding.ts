import { type IncomingMessage } from 'node:http';
import { type Transform } from 'node:stream';
import {
  constants,
  createBrotliDecompress,
  createGunzip,
  createInflate,
  createZstdDecompress,
} from 'node:zlib';
import { RequestError } from './request-error.ts';

const chunkSize = 65_536;

/** The codings of request bodies that are unpacked, by their name in `content-encoding`. */
const decoders = {
  gzip: () => createGunzip({ chunkSize }),
  'x-gzip': () => createGunzip({ chunkSize }),
  deflate: () => createInflate({ chunkSize }),
  br: () => createBrotliDecompress({ chunkSize }),
  // A frame names the window it needs; 8 MB is what RFC 9659 allows over HTTP, the library would take 128.
  zstd: () => createZstdDecompress({ chunkSize, params: { [constants.ZSTD_d_windowLogMax]: 23 } }),
} satisfies Record<string, () => Transform>;

const known = Object.keys(decoders).join(', ');

/**
 * The decoder for a request's body; undefined when it is not packed.
 *
 * @throws RequestError 415 when the coding is not known, or when there are several.
 */
export function decoderOf({ headers }: IncomingMessage): Transform | undefined {
  const codings = (headers['content-encoding'] ?? '')
    .split(',')
    .map((coding) => coding.trim().toLowerCase())
    .filter((coding) => coding !== '' && coding !== 'identity');
  const [coding] = codings;
  if (coding === undefined) return undefined;
  if (codings.length > 1) throw unsupported('packed once');
  if (!Object.hasOwn(decoders, coding)) throw unsupported('packed in a known way');
  return decoders[coding as keyof typeof decoders]();
}

function unsupported(expectation: string): RequestError {
  return new RequestError(
    415,
    'UNSUPPORTED_CONTENT_ENCODING',
    `content-encoding: expected a body ${expectation}, with one of ${known} or without content-encoding`,
    // RFC 9110 15.5.16: tells the refusal from one of the content type.
    { headers: ['accept-encoding', known] },
  );
}
