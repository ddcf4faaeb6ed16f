import sharp, { type Metadata } from 'sharp';

import { asGap, badRequest } from '../errors.ts';
import { isTruncated } from './truncation.ts';

/** What the header of an image file says. */
export interface ImageHeader {
  /** Size after the EXIF orientation is applied. */
  readonly width: number;
  readonly height: number;
  /**
   * True when upstream's decoder has to convert to plain RGB: grey, palette, bilevel, CMYK and everything with
   * transparency. Such an image hashes differently.
   */
  readonly isConverted: boolean;
}

/** Formats that decode bit for bit as upstream's decoder does; others would give other pixels. */
const FORMATS: ReadonlySet<string> = new Set(['jpeg', 'png', 'webp', 'gif']);

sharp.cache(false);

/** Reads size and mode from the header. Throws a 400 for other formats, broken files and too many pixels. */
export async function readImageHeader(file: Buffer, maxPixels: number): Promise<ImageHeader> {
  const metadata = await readMetadata(file);
  const { width, height, format } = metadata;
  if (!FORMATS.has(format)) {
    throw asGap(badRequest(`Failed to load image: the format ${format} is not supported`));
  }
  if (width * height > maxPixels) {
    throw badRequest(`Image size (${width * height} pixels) exceeds limit of ${maxPixels} pixels.`);
  }
  if (isTruncated(file, format)) {
    throw badRequest('Failed to load image: image file is truncated');
  }
  const isTurned = (metadata.orientation ?? 1) >= 5;
  return {
    width: isTurned ? height : width,
    height: isTurned ? width : height,
    isConverted: !isPlainRgb(metadata),
  };
}

async function readMetadata(file: Buffer): Promise<Metadata> {
  try {
    return await sharp(file, { limitInputPixels: false, failOn: 'error' }).metadata();
  } catch (cause) {
    // Upstream's decoder knows more formats.
    throw asGap(badRequest('Failed to load image: cannot identify image file', null, { cause }));
  }
}

/** GIF is a palette format, whatever its colours are. */
function isPlainRgb(metadata: Metadata): boolean {
  return (
    metadata.format !== 'gif' &&
    metadata.channels === 3 &&
    !metadata.hasAlpha &&
    !metadata.isPalette
  );
}
