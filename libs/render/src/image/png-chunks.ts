const SIGNATURE_BYTES = 8;
/** Length, type and checksum around the data of a chunk. */
const OVERHEAD_BYTES = 12;

/** A chunk of a PNG file; `start` and `end` include length and checksum. */
export interface PngChunk {
  readonly type: string;
  readonly start: number;
  readonly end: number;
}

/** The chunks of a PNG file up to `IEND`; those that the file cuts off are left out. */
export function* pngChunks(file: Buffer): Generator<PngChunk> {
  let start = SIGNATURE_BYTES;
  while (start + OVERHEAD_BYTES <= file.length) {
    const type = file.toString('latin1', start + 4, start + 8);
    const end = start + OVERHEAD_BYTES + file.readUInt32BE(start);
    if (end > file.length) return;
    yield { type, start, end };
    if (type === 'IEND') return;
    start = end;
  }
}
