const TAG = {
  bits: 258,
  compression: 259,
  photometric: 262,
  stripOffsets: 273,
  orientation: 274,
  samples: 277,
  stripBytes: 279,
  planes: 284,
  extraSamples: 338,
  sampleFormat: 339,
} as const;
/** None, LZW, the two of Deflate, PackBits: they give the pixels back as they were. */
const LOSSLESS = new Set([1, 5, 8, 32_946, 32_773]);
const RGB = 2;
/** Bytes of a value by its type: byte, text, short, long. */
const TYPE_BYTES: Readonly<Record<number, number>> = { 1: 1, 2: 1, 3: 2, 4: 4 };
const MAX_VALUES = 65_536;

/**
 * True for a TIFF that decodes to the same pixels everywhere: one page of 8-bit RGB without transparency, turned in no
 * way, with lossless compression, in strips that are all there.
 */
export function isPlainTiff(file: Buffer): boolean {
  const tags = readTags(file);
  if (tags === undefined) return false;
  const only = (tag: number, otherwise: number): number => tags.get(tag)?.[0] ?? otherwise;
  const bits = tags.get(TAG.bits) ?? [];
  const offsets = tags.get(TAG.stripOffsets) ?? [];
  const lengths = tags.get(TAG.stripBytes) ?? [];
  return (
    LOSSLESS.has(only(TAG.compression, 1)) &&
    only(TAG.photometric, 0) === RGB &&
    only(TAG.samples, 1) === 3 &&
    bits.length === 3 &&
    bits.every((count) => count === 8) &&
    only(TAG.planes, 1) === 1 &&
    only(TAG.orientation, 1) === 1 &&
    only(TAG.sampleFormat, 1) === 1 &&
    !tags.has(TAG.extraSamples) &&
    offsets.length > 0 &&
    offsets.length === lengths.length &&
    offsets.every((offset, at) => offset + (lengths[at] ?? 0) <= file.length)
  );
}

/** The numbers of the first page by tag; undefined for a broken file, and one of several pages. */
function readTags(file: Buffer): ReadonlyMap<number, readonly number[]> | undefined {
  const isLittle = file.toString('latin1', 0, 2) === 'II';
  const short = (at: number): number => (isLittle ? file.readUInt16LE(at) : file.readUInt16BE(at));
  const long = (at: number): number => (isLittle ? file.readUInt32LE(at) : file.readUInt32BE(at));
  try {
    const tags = new Map<number, number[]>();
    const directory = long(4);
    const entries = short(directory);
    if (long(directory + 2 + entries * 12) !== 0) return undefined;
    for (let entry = 0; entry < entries; entry++) {
      const at = directory + 2 + entry * 12;
      const [type, count] = [short(at + 2), long(at + 4)];
      const size = TYPE_BYTES[type];
      if (size === undefined || count > MAX_VALUES) continue;
      const start = size * count <= 4 ? at + 8 : long(at + 8);
      const read =
        size === 1 ? (place: number) => file.readUInt8(place) : size === 2 ? short : long;
      tags.set(
        short(at),
        Array.from({ length: count }, (_, index) => read(start + index * size)),
      );
    }
    return tags;
  } catch {
    // A place beyond the end of the file.
    return undefined;
  }
}
