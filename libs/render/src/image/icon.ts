const HEADER_BYTES = 6;
const ENTRY_BYTES = 16;
/** Reserved, and the type of an icon. */
const SIGNATURE = Buffer.of(0, 0, 1, 0);
const PNG_SIGNATURE = Buffer.of(0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a);
/** Places in a PNG file. */
const PNG_WIDTH = 16;
const PNG_HEIGHT = 20;

/**
 * The largest picture of an ICO file, which is the one that upstream's decoder shows, when it is a PNG of the size that
 * the directory says and the only one of that size; undefined for every other file.
 */
export function iconPicture(file: Buffer): Buffer | undefined {
  if (file.length < HEADER_BYTES || !file.subarray(0, SIGNATURE.length).equals(SIGNATURE)) {
    return undefined;
  }
  const entries = Array.from({ length: file.readUInt16LE(4) }, (_, index) =>
    file.subarray(HEADER_BYTES + index * ENTRY_BYTES, HEADER_BYTES + (index + 1) * ENTRY_BYTES),
  ).filter((entry) => entry.length === ENTRY_BYTES);
  const areas = entries.map((entry) => side(entry[0]) * side(entry[1]));
  const largest = Math.max(...areas);
  const [entry, other] = entries.filter((_, index) => areas[index] === largest);
  if (entry === undefined || other !== undefined) return undefined;
  const start = entry.readUInt32LE(12);
  const picture = file.subarray(start, start + entry.readUInt32LE(8));
  const isPng =
    picture.length > PNG_HEIGHT + 4 &&
    picture.subarray(0, PNG_SIGNATURE.length).equals(PNG_SIGNATURE) &&
    picture.readUInt32BE(PNG_WIDTH) === side(entry[0]) &&
    picture.readUInt32BE(PNG_HEIGHT) === side(entry[1]);
  return isPng ? picture : undefined;
}

/** A side is a byte, in which 256 has no room. */
function side(byte: number | undefined): number {
  return byte === undefined || byte === 0 ? 256 : byte;
}
