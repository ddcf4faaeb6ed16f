import { inflateSync } from 'node:zlib';

import { pngChunks } from '../image/png-chunks.ts';

/** Length and type in front of the data of a chunk, and the checksum behind it. */
const HEAD_BYTES = 8;
const CHECKSUM_BYTES = 4;

/**
 * True when the compressed pixels of a PNG file stop before they are complete, false when they are whole or damaged.
 * Inflates at most `maxBytes`.
 */
export function isPixelDataCut(file: Buffer, maxBytes: number): boolean {
  const data = [...pngChunks(file)]
    .filter(({ type }) => type === 'IDAT')
    .map(({ start, end }) => file.subarray(start + HEAD_BYTES, end - CHECKSUM_BYTES));
  try {
    inflateSync(Buffer.concat(data), { maxOutputLength: maxBytes });
    return false;
  } catch (error) {
    return hasCode(error) && error.code === 'Z_BUF_ERROR';
  }
}

function hasCode(error: unknown): error is { readonly code: unknown } {
  return typeof error === 'object' && error !== null && 'code' in error;
}
