import { type IncomingMessage } from 'node:http';

/** A body as it came in, never joined. */
export interface Chunks {
  chunks: Buffer[];
  bytes: number;
}

/** The body is larger than the limit. */
export class BodyTooLarge extends Error {
  override readonly name = 'BodyTooLarge';
}

/**
 * Keeps a body as its chunks. Throws when the sender leaves, and BodyTooLarge; the rest is read and
 * dropped first, because a connection closed in the middle of an upload may swallow the answer.
 */
export async function readChunks(request: IncomingMessage, limitBytes: number): Promise<Chunks> {
  let chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > limitBytes) chunks = [];
    else chunks.push(chunk);
  }
  if (bytes > limitBytes) throw new BodyTooLarge(`body is larger than ${limitBytes} bytes`);
  return { chunks, bytes };
}
