const PNG_SIGNATURE_BYTES = 8;
const PNG_CHUNK_OVERHEAD_BYTES = 12;

/**
 * True when a file ends before its image does. It follows the structure of the file only, so it costs no decoding;
 * bytes after the end are allowed, as upstream allows them.
 */
export function isTruncated(file: Buffer, format: string): boolean {
  switch (format) {
    case 'png':
      return !hasPngEnd(file);
    case 'jpeg':
      return file.lastIndexOf(Buffer.of(0xff, 0xd9)) <= 0;
    case 'webp':
      return file.length < 12 || file.readUInt32LE(4) + 8 > file.length;
    case 'gif':
      return !hasWholeGifFrame(file);
    default:
      return false;
  }
}

function hasPngEnd(file: Buffer): boolean {
  let at = PNG_SIGNATURE_BYTES;
  while (at + PNG_CHUNK_OVERHEAD_BYTES <= file.length) {
    const length = file.readUInt32BE(at);
    const isEnd = file.toString('latin1', at + 4, at + 8) === 'IEND';
    at += PNG_CHUNK_OVERHEAD_BYTES + length;
    if (isEnd) return at <= file.length;
  }
  return false;
}

/** Walks the blocks up to the end of the first frame: later frames are never read. */
function hasWholeGifFrame(file: Buffer): boolean {
  const screenFlags = file[10];
  if (screenFlags === undefined) return false;
  let at = 13 + colourTableBytes(screenFlags);
  for (;;) {
    switch (file[at]) {
      case 0x21:
        at = afterSubBlocks(file, at + 2);
        break;
      case 0x2c: {
        const flags = file[at + 9] ?? 0;
        return afterSubBlocks(file, at + 11 + colourTableBytes(flags)) <= file.length;
      }
      default:
        return false;
    }
  }
}

function colourTableBytes(flags: number): number {
  return (flags & 0x80) === 0 ? 0 : 3 * 2 ** ((flags & 7) + 1);
}

/** Offset behind a chain of sub-blocks; beyond the end of the file when the chain is cut. */
function afterSubBlocks(file: Buffer, start: number): number {
  let at = start;
  for (;;) {
    const size = file[at];
    if (size === undefined) return file.length + 1;
    at += size + 1;
    if (size === 0) return at;
  }
}
