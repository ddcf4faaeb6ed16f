import { createHash } from 'node:crypto';
import { type IncomingMessage } from 'node:http';
import { ApiError } from './api-error.ts';

/** A request body and the SHA-256 of its bytes, hex. */
export interface Body {
  bytes: Buffer;
  sha256: string;
}

/**
 * Reads a body of any transfer encoding. Throws ApiError 413 above the limit; the rest is read and
 * dropped first, because a connection closed in the middle of an upload may swallow the answer.
 */
export async function readBody(request: IncomingMessage, limitBytes: number): Promise<Body> {
  const digest = createHash('sha256');
  let chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    length += chunk.length;
    digest.update(chunk);
    if (length > limitBytes) chunks = [];
    else chunks.push(chunk);
  }
  if (length > limitBytes) {
    throw new ApiError(413, `Request body is larger than ${limitBytes} bytes`);
  }
  return { bytes: Buffer.concat(chunks, length), sha256: digest.digest('hex') };
}
