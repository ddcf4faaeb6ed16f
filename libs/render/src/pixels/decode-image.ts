import sharp, { type SharpOptions } from 'sharp';

import { badRequest, notImplemented, RenderError } from '../errors.ts';
import { bitmapPixels, isBitmap, readBitmap } from '../image/bitmap.ts';
import { firstGifFrame } from '../image/gif-frame.ts';
import { type ImageSource } from '../image/image-header.ts';
import { clippedGreyToRgb, cmykToRgb, pasteRgba } from './convert-samples.ts';
import { isPixelDataCut } from './png-data.ts';
import { releasePixels, type RgbColor, type RgbImage } from './rgb-image.ts';

/** Byte of a PNG file that says how its samples are coloured, and the two values without alpha or palette. */
const PNG_COLOUR_TYPE_OFFSET = 25;
const PNG_GREY = 0;
const PNG_RGB = 2;
/** Four 16-bit samples per pixel, and one byte in front of each row of at least one pixel. */
const MAX_PNG_BYTES_PER_PIXEL = 9;

/**
 * The pixels of an image file as upstream's decoder gives them: first frame, EXIF orientation applied, colour profile
 * ignored, transparency pasted on `background`. Throws a 400 for a broken file and a 501 for a kind whose pixels would
 * differ. Format and size are checked before, on the header; `source` is what it says.
 */
export async function decodeImage(
  file: Buffer,
  background: RgbColor,
  source?: ImageSource,
): Promise<RgbImage> {
  const bitmap = isBitmap(file) ? readBitmap(file) : undefined;
  if (bitmap !== undefined) {
    const { width, height } = bitmap;
    return { width, height, data: bitmapPixels(file, bitmap) };
  }
  try {
    const known = source ?? (await sharp(file, { limitInputPixels: false }).metadata());
    refuseUnlike(file, known);
    try {
      return await decode(file, known, background, 'error');
    } catch (error) {
      if (!isDamagedPng(file, known)) throw error;
      return await decode(file, known, background, 'none');
    }
  } catch (cause) {
    if (cause instanceof RenderError) throw cause;
    throw badRequest('Failed to load image: broken data stream', null, { cause });
  }
}

async function decode(
  file: Buffer,
  { width, height, space, depth, hasAlpha }: ImageSource,
  background: RgbColor,
  failOn: NonNullable<SharpOptions['failOn']>,
): Promise<RgbImage> {
  const image = sharp(file, {
    ignoreIcc: true,
    autoOrient: true,
    failOn,
    limitInputPixels: width * height,
  });
  if (space === 'cmyk') {
    image.pipelineColourspace('cmyk').toColourspace('cmyk').raw();
    const { data, info } = await image.toBuffer({ resolveWithObject: true });
    return { width: info.width, height: info.height, data: cmykToRgb(data) };
  }
  if (space === 'grey16' && depth === 'ushort' && !hasAlpha) {
    image.pipelineColourspace('grey16').toColourspace('grey16').raw({ depth: 'ushort' });
    const { data, info } = await image.toBuffer({ resolveWithObject: true });
    const grey = new Uint16Array(data.buffer, data.byteOffset, data.length / 2);
    return { width: info.width, height: info.height, data: clippedGreyToRgb(grey) };
  }
  // Of other 16-bit samples this keeps the high byte, as Pillow does.
  image.toColourspace('srgb').raw();
  const { data, info } = await image.toBuffer({ resolveWithObject: true });
  const { width: columns, height: rows } = info;
  if (info.channels !== 4) return { width: columns, height: rows, data };
  const pasted = pasteRgba(data, background);
  releasePixels(data);
  return { width: columns, height: rows, data: pasted };
}

/** Pillow shows what it can of a PNG with wrong bytes or checksums, and refuses one that is cut short. */
function isDamagedPng(file: Buffer, { format, width, height }: ImageSource): boolean {
  return format === 'png' && !isPixelDataCut(file, width * height * MAX_PNG_BYTES_PER_PIXEL);
}

/** Refuses what our decoder reads too, but is not known to read as upstream's. */
function refuseUnlike(file: Buffer, { format, depth, hasAlpha }: ImageSource): void {
  if (format === 'gif') {
    const frame = firstGifFrame(file);
    // Outside of the frame Pillow shows the first colour of the palette, our decoder nothing.
    if (frame !== undefined && !frame.fillsScreen && !frame.hasTransparency) {
      throw notImplemented('a GIF whose first frame does not fill it');
    }
  }
  const colourType = file[PNG_COLOUR_TYPE_OFFSET];
  const hasColourKey = hasAlpha && (colourType === PNG_GREY || colourType === PNG_RGB);
  if (format === 'png' && depth === 'ushort' && hasColourKey) {
    throw notImplemented('a PNG of 16-bit samples with a transparent colour');
  }
}
