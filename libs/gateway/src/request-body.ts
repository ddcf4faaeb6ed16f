import { type Readable } from 'node:stream';
import { type StreamRequest } from './upstream-request.ts';

/** Bodies up to this size are sent in one piece: one write is cheaper than several. */
const singleWriteBytes = 65_536;

/** Larger bodies go out as fast as the peer reads them. */
const maxGatheredBytes = 4 * 1024 * 1024;

/** Whether the body is in memory, not in one write, and not so large that its upload should be watched. */
export function isGathered(body: StreamRequest['body']): boolean {
  if (!body || 'stream' in body) return false;
  return body.byteLength > singleWriteBytes && body.byteLength <= maxGatheredBytes;
}

/** A body in the form that undici sends. */
export function toBody(body: StreamRequest['body']): Uint8Array | Readable | null {
  if (!body) return null;
  if ('stream' in body) return body.stream;
  const { chunks, byteLength } = body;
  if (byteLength <= singleWriteBytes) {
    const [first] = chunks;
    return chunks.length === 1 && first ? first : Buffer.concat(chunks);
  }
  // undici sends any iterable of bytes chunk by chunk; its types only know streams. A list can be emptied when it is sent.
  return joinSmall(chunks) as unknown as Readable;
}

/** Joins neighbours below `singleWriteBytes`, the edits between long unchanged runs: each chunk costs a system call. */
function joinSmall(chunks: readonly Uint8Array[]): Uint8Array[] {
  const joined: Uint8Array[] = [];
  let small: Uint8Array[] = [];
  const flush = (): void => {
    const [only] = small;
    if (only) joined.push(small.length === 1 ? only : Buffer.concat(small));
    small = [];
  };
  for (const chunk of chunks) {
    if (chunk.length < singleWriteBytes) small.push(chunk);
    else {
      flush();
      joined.push(chunk);
    }
  }
  flush();
  return joined;
}
