import { MediaError } from './media-error.ts';
import { type ContentCheck, type MediaLimits } from './options.ts';

/** Stored pixels of an image, before any EXIF rotation. */
export interface ImageSize {
  readonly width: number;
  readonly height: number;
}

/** Bytes of the beginning in which a JPEG's frame header is looked for; others need far less. */
export const imageHeaderBytes = 64 * 1024;

function jpegSize(view: DataView): ImageSize | undefined {
  let offset = 2;
  while (offset + 9 <= view.byteLength) {
    if (view.getUint8(offset) !== 0xff) {
      return undefined;
    }
    const marker = view.getUint8(offset + 1);
    if (marker === 0xff) {
      offset += 1; // fill byte
      continue;
    }
    const hasNoLength = marker === 0x01 || (marker >= 0xd0 && marker <= 0xd8);
    if (hasNoLength) {
      offset += 2;
      continue;
    }
    // C4, C8 and CC of the start-of-frame range define tables and extensions.
    const isFrame =
      marker >= 0xc0 && marker <= 0xcf && marker !== 0xc4 && marker !== 0xc8 && marker !== 0xcc;
    if (isFrame) {
      return { height: view.getUint16(offset + 5), width: view.getUint16(offset + 7) };
    }
    if (marker === 0xd9 || marker === 0xda) {
      return undefined; // the picture begins or ends without a frame header
    }
    offset += 2 + view.getUint16(offset + 2);
  }
  return undefined;
}

function pngSize(view: DataView): ImageSize | undefined {
  const isHeader = view.byteLength >= 24 && view.getUint32(12) === 0x49484452; // IHDR
  return isHeader ? { width: view.getUint32(16), height: view.getUint32(20) } : undefined;
}

function gifSize(view: DataView): ImageSize | undefined {
  return view.byteLength >= 10
    ? { width: view.getUint16(6, true), height: view.getUint16(8, true) }
    : undefined;
}

function webpSize(view: DataView): ImageSize | undefined {
  if (view.byteLength < 30) {
    return undefined;
  }
  switch (view.getUint32(12)) {
    case 0x56503820: // 'VP8 '
      return view.getUint32(23) >>> 8 === 0x9d012a
        ? { width: view.getUint16(26, true) & 0x3fff, height: view.getUint16(28, true) & 0x3fff }
        : undefined;
    case 0x5650384c: {
      // 'VP8L'
      const bits = view.getUint32(21, true);
      return { width: (bits & 0x3fff) + 1, height: ((bits >>> 14) & 0x3fff) + 1 };
    }
    case 0x56503858: // 'VP8X'
      return {
        width: (view.getUint32(24, true) & 0xffffff) + 1,
        height: (view.getUint32(26, true) >>> 8) + 1,
      };
    default:
      return undefined;
  }
}

/**
 * Reads the size from the header of a JPEG, PNG, GIF or WebP without decoding anything; undefined when the
 * header is not understood or lies beyond the bytes given.
 */
export function imageSize(type: string, bytes: Uint8Array): ImageSize | undefined {
  const view = new DataView(
    bytes.buffer,
    bytes.byteOffset,
    Math.min(bytes.byteLength, imageHeaderBytes),
  );
  switch (type) {
    case 'image/jpeg':
      return jpegSize(view);
    case 'image/png':
      return pngSize(view);
    case 'image/gif':
      return gifSize(view);
    case 'image/webp':
      return webpSize(view);
    default:
      return undefined;
  }
}

/**
 * Refuses a header that claims more than the limits allow, before anybody decodes it. With `strict` the size
 * must be known and the aspect ratio inside its limit too. Throws MediaError.
 */
export function checkImageSize(
  doing: string,
  size: ImageSize | undefined,
  contentCheck: ContentCheck,
  limits: Pick<MediaLimits, 'maxImagePixels' | 'maxImageSide' | 'maxAspectRatio'>,
): void {
  const isStrict = contentCheck === 'strict';
  if (size === undefined || size.width === 0 || size.height === 0) {
    if (isStrict) {
      throw new MediaError('media_content_invalid', `${doing}: the image header cannot be read`);
    }
    return;
  }
  const { width, height } = size;
  const exceed = (what: string, limit: number, actual: number): void => {
    if (actual > limit) {
      throw new MediaError(
        'media_dimensions_exceeded',
        `${doing}: image of ${width}x${height} pixels exceeds ${limit} ${what}`,
        { limit, actual },
      );
    }
  };
  exceed('pixels', limits.maxImagePixels, width * height);
  exceed('pixels per side', limits.maxImageSide, Math.max(width, height));
  if (isStrict) {
    exceed(
      'times the short side',
      limits.maxAspectRatio,
      Math.max(width, height) / Math.min(width, height),
    );
  }
}
