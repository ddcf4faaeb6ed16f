import { firstGifFrame } from './gif-frame.ts';
import { pngChunks } from './png-chunks.ts';

/**
 * True when a file ends before its image does. It follows the structure of the file only, so it costs no decoding;
 * bytes after the end are allowed, as upstream allows them.
 */
export function isTruncated(file: Buffer, format: string): boolean {
  switch (format) {
    case 'png':
      return ![...pngChunks(file)].some(({ type }) => type === 'IEND');
    case 'jpeg':
      return file.lastIndexOf(Buffer.of(0xff, 0xd9)) <= 0;
    case 'webp':
      return file.length < 12 || file.readUInt32LE(4) + 8 > file.length;
    case 'gif':
      return firstGifFrame(file)?.isWhole !== true;
    default:
      return false;
  }
}
