/** What an image's headers tell beside its size. */
export interface ImageDetails {
  /** EXIF orientation, 1 to 8; 1 when it says nothing. */
  readonly orientation: number;
  /** Pictures of an animation; 1 for a still image. */
  readonly frames: number;
}

const still: ImageDetails = { orientation: 1, frames: 1 };

/**
 * Reads orientation and frames of a JPEG, PNG, GIF or WebP without decoding a pixel. What is cut or not
 * understood counts as upright and as one frame.
 */
export function imageDetails(type: string, bytes: Buffer): ImageDetails {
  try {
    switch (type) {
      case 'image/jpeg':
        return { ...still, orientation: jpegOrientation(bytes) };
      case 'image/png':
        return pngDetails(bytes);
      case 'image/gif':
        return { ...still, frames: Math.max(1, gifFrames(bytes)) };
      case 'image/webp':
        return webpDetails(bytes);
      default:
        return still;
    }
  } catch (error) {
    // Reading behind the end, which a cut or crafted header asks for.
    // By its name, since Node's own classes are others inside of a context.
    if ((error as Error).name === 'RangeError') return still;
    throw error;
  }
}

function jpegOrientation(bytes: Buffer): number {
  let offset = 2;
  while (bytes.readUInt8(offset) === 0xff) {
    const marker = bytes.readUInt8(offset + 1);
    if (marker === 0xff) {
      offset += 1;
      continue;
    }
    if (marker === 0x01 || (marker >= 0xd0 && marker <= 0xd8)) {
      offset += 2;
      continue;
    }
    if (marker === 0xda || marker === 0xd9) break;
    const end = offset + 2 + bytes.readUInt16BE(offset + 2);
    const isExif = marker === 0xe1 && bytes.toString('latin1', offset + 4, offset + 10) === exif;
    if (isExif) return tiffOrientation(bytes.subarray(offset + 10, end));
    offset = end;
  }
  return 1;
}

const exif = 'Exif\0\0';

/** The tag 0x0112 of the first directory. */
function tiffOrientation(tiff: Buffer): number {
  const isLittle = tiff.toString('latin1', 0, 2) === 'II';
  const short = (at: number): number => (isLittle ? tiff.readUInt16LE(at) : tiff.readUInt16BE(at));
  const start = isLittle ? tiff.readUInt32LE(4) : tiff.readUInt32BE(4);
  const count = short(start);
  for (let i = 0; i < count; i += 1) {
    const entry = start + 2 + i * 12;
    if (short(entry) === 0x0112) {
      const value = short(entry + 8);
      return value >= 1 && value <= 8 ? value : 1;
    }
  }
  return 1;
}

function pngDetails(bytes: Buffer): ImageDetails {
  let details = still;
  for (let offset = 8; offset + 12 <= bytes.length;) {
    const length = bytes.readUInt32BE(offset);
    const name = bytes.toString('latin1', offset + 4, offset + 8);
    const data = bytes.subarray(offset + 8, offset + 8 + length);
    if (name === 'acTL') details = { ...details, frames: Math.max(1, data.readUInt32BE(0)) };
    if (name === 'eXIf') details = { ...details, orientation: tiffOrientation(data) };
    if (name === 'IEND') break;
    offset += 12 + length;
  }
  return details;
}

/** Image descriptors up to the trailer or the end. */
function gifFrames(bytes: Buffer): number {
  const flags = bytes.readUInt8(10);
  let offset = 13 + colourTableBytes(flags);
  let frames = 0;
  while (offset < bytes.length) {
    const block = bytes.readUInt8(offset);
    if (block === 0x2c) {
      frames += 1;
      if (offset + 11 > bytes.length) break;
      // The descriptor, its colours and the size of codes.
      offset = afterSubBlocks(bytes, offset + 11 + colourTableBytes(bytes.readUInt8(offset + 9)));
    } else if (block === 0x21) {
      offset = afterSubBlocks(bytes, offset + 2);
    } else {
      break;
    }
  }
  return frames;
}

const colourTableBytes = (flags: number): number =>
  (flags & 0x80) === 0 ? 0 : 3 * 2 ** ((flags & 7) + 1);

function afterSubBlocks(bytes: Buffer, start: number): number {
  let offset = start;
  while (offset < bytes.length) {
    const length = bytes.readUInt8(offset);
    offset += 1 + length;
    if (length === 0) break;
  }
  return offset;
}

function webpDetails(bytes: Buffer): ImageDetails {
  let [orientation, frames] = [1, 0];
  for (let offset = 12; offset + 8 <= bytes.length;) {
    const name = bytes.toString('latin1', offset, offset + 4);
    const length = bytes.readUInt32LE(offset + 4);
    if (name === 'ANMF') frames += 1;
    if (name === 'EXIF') {
      const data = bytes.subarray(offset + 8, offset + 8 + length);
      const isPrefixed = data.toString('latin1', 0, exif.length) === exif;
      orientation = tiffOrientation(isPrefixed ? data.subarray(exif.length) : data);
    }
    offset += 8 + length + (length & 1);
  }
  return { orientation, frames: Math.max(1, frames) };
}
