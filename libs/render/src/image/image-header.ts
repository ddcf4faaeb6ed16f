import sharp, { type Metadata } from 'sharp';

import { asGap, badRequest } from '../errors.ts';
import { isBitmap, isBitmapCut, readBitmap } from './bitmap.ts';
import { isPlainTiff } from './tiff-tags.ts';
import { isTruncated } from './truncation.ts';

/** How the pixels of a file are stored, as our decoder tells it. */
export type ImageSource = Pick<
  Metadata,
  'format' | 'width' | 'height' | 'space' | 'depth' | 'hasAlpha'
>;

/** What the header of an image file says. */
export interface ImageHeader {
  /** Undefined for a BMP, which we decode ourselves. */
  readonly source: ImageSource | undefined;
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
const FORMATS: ReadonlySet<string> = new Set(['jpeg', 'png', 'webp', 'gif', 'tiff']);

sharp.cache(false);

/** Reads size and mode from the header. Throws a 400 for other formats, broken files and too many pixels. */
export async function readImageHeader(file: Buffer, maxPixels: number): Promise<ImageHeader> {
  if (isBitmap(file)) return readBitmapHeader(file, maxPixels);
  const metadata = await readMetadata(file);
  const { width, height, format } = metadata;
  if (!FORMATS.has(format) || (format === 'tiff' && !isPlainTiff(file))) {
    throw asGap(badRequest(`Failed to load image: the format ${format} is not supported`));
  }
  checkPixels(width * height, maxPixels);
  if (isTruncated(file, format)) throw truncated();
  const isTurned = (metadata.orientation ?? 1) >= 5;
  const { space, depth, hasAlpha } = metadata;
  return {
    source: { format, width, height, space, depth, hasAlpha },
    width: isTurned ? height : width,
    height: isTurned ? width : height,
    isConverted: !isPlainRgb(metadata),
  };
}

function readBitmapHeader(file: Buffer, maxPixels: number): ImageHeader {
  const bitmap = readBitmap(file);
  if (bitmap === undefined) {
    throw asGap(badRequest('Failed to load image: this kind of the format bmp is not supported'));
  }
  const { width, height } = bitmap;
  checkPixels(width * height, maxPixels);
  if (isBitmapCut(file, bitmap)) throw truncated();
  return { source: undefined, width, height, isConverted: false };
}

function checkPixels(pixels: number, maxPixels: number): void {
  if (pixels <= maxPixels) return;
  throw badRequest(`Image size (${pixels} pixels) exceeds limit of ${maxPixels} pixels.`);
}

function truncated(): Error {
  return badRequest('Failed to load image: image file is truncated');
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
