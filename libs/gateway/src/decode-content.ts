import { promisify } from 'node:util';
import { brotliDecompress, gunzip, inflate, zstdDecompress } from 'node:zlib';
import { TransportError } from './transport-error.ts';

const decoders = {
  gzip: promisify(gunzip),
  'x-gzip': promisify(gunzip),
  deflate: promisify(inflate),
  br: promisify(brotliDecompress),
  zstd: promisify(zstdDecompress),
};

/**
 * Unpacks an answer that came compressed although nobody asked for it.
 *
 * @throws TransportError when the coding is unknown, the bytes are damaged or the content exceeds `maxBytes`.
 */
export async function decodeContent(
  body: Buffer,
  encoding: string | undefined,
  maxBytes: number,
): Promise<Buffer> {
  const coding = encoding?.trim().toLowerCase() ?? 'identity';
  if (coding === 'identity' || coding === '') return body;
  const decoder = Object.hasOwn(decoders, coding)
    ? decoders[coding as keyof typeof decoders]
    : undefined;
  if (!decoder) throw new TransportError('answer-undecodable');
  try {
    return await decoder(body, { maxOutputLength: maxBytes });
  } catch (cause) {
    throw new TransportError('answer-undecodable', { cause });
  }
}
