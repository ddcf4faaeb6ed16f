/** Where the pixels of a plain bitmap lie. */
export interface Bitmap {
  readonly width: number;
  readonly height: number;
  /** Bytes of a row, padding included. */
  readonly stride: number;
  readonly offset: number;
  /** Rows usually lie from the bottom up. */
  readonly isTopDown: boolean;
}

const HEADER_BYTES = 54;
const INFO_BYTES = 40;

/** Whether a file says that it is a BMP. */
export function isBitmap(file: Buffer): boolean {
  return file.length >= HEADER_BYTES && file.toString('latin1', 0, 2) === 'BM';
}

/** The header of a BMP of 24 bits per pixel without compression; undefined for every other kind. */
export function readBitmap(file: Buffer): Bitmap | undefined {
  const [width, rows] = [file.readInt32LE(18), file.readInt32LE(22)];
  const isPlain =
    file.readUInt32LE(14) >= INFO_BYTES &&
    file.readUInt16LE(28) === 24 &&
    file.readUInt32LE(30) === 0 &&
    width > 0 &&
    rows !== 0;
  return isPlain
    ? {
        width,
        height: Math.abs(rows),
        stride: Math.ceil((width * 3) / 4) * 4,
        offset: file.readUInt32LE(10),
        isTopDown: rows < 0,
      }
    : undefined;
}

/** True when a file ends before its pixels do. */
export function isBitmapCut(file: Buffer, { offset, stride, height, width }: Bitmap): boolean {
  return file.length < offset + stride * (height - 1) + width * 3;
}

/** The pixels of a whole bitmap as RGB, rows from the top down. */
export function bitmapPixels(file: Buffer, bitmap: Bitmap): Uint8Array {
  const { width, height, stride, offset, isTopDown } = bitmap;
  const rgb = new Uint8Array(width * height * 3);
  for (let y = 0; y < height; y++) {
    const start = offset + stride * (isTopDown ? y : height - 1 - y);
    const row = file.subarray(start, start + width * 3);
    const target = y * width * 3;
    for (let x = 0; x < row.length; x += 3) {
      rgb[target + x] = row[x + 2] ?? 0;
      rgb[target + x + 1] = row[x + 1] ?? 0;
      rgb[target + x + 2] = row[x] ?? 0;
    }
  }
  return rgb;
}
