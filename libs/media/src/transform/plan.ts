import { imageDetails } from '../image-details.ts';
import { type ImageSize } from '../image-size.ts';
import { MediaError } from '../media-error.ts';
import { type MediaResult } from '../media-result.ts';
import { type MediaFetchOptions, type MediaLimits } from '../options.ts';
import { targetSize } from './target-size.ts';

/** The format that an image is written in. */
export type ImageOutput = 'jpeg' | 'webp_lossless' | 'png';

/** What is done with one image. */
export interface ImagePlan {
  readonly kind: 'shrunk' | 'reoriented' | 'transcoded' | 'unchanged';
  /** Upright pixels of the result; undefined where they stay. */
  readonly size: ImageSize | undefined;
  /** Whether the result is taken although it is larger than the source. */
  readonly isNeeded: boolean;
  /** Whether the source may not be passed on as it is. */
  readonly isRefused: boolean;
  readonly background: string;
  readonly outputFor: (hasAlpha: boolean) => ImageOutput;
  /** What decides the bytes of the result, beside those of the source. */
  readonly parameters: readonly unknown[];
}

const decodable = new Set(['image/jpeg', 'image/png', 'image/gif', 'image/webp']);

/** Whether pixels of a type are only near to those that were encoded. */
function isLossy({ contentType, bytes }: MediaResult): boolean {
  switch (contentType) {
    case 'image/jpeg':
    case 'image/avif':
    case 'image/heic':
      return true;
    case 'image/webp':
      // The chunk of the picture, also inside of an animation.
      return !bytes.subarray(0, 64 * 1024).includes('VP8L', 0, 'latin1');
    default:
      return false;
  }
}

/**
 * What the options want of an image; undefined when they want nothing of any. Decided by headers alone, so that
 * nothing is decoded that need not be. Throws MediaError for what may not be decoded.
 */
export function planOf(
  source: MediaResult,
  { transform, transcodeImageTypes = [] }: MediaFetchOptions,
  limits: MediaLimits,
): ImagePlan | undefined {
  const { contentType, bytes } = source;
  const isTranscoded = transcodeImageTypes.includes(contentType);
  const isFit = transform !== undefined && transform.mode === 'fit';
  if (!isFit && !isTranscoded) {
    return undefined;
  }
  const { background = '#ffffff', output = 'auto' } = transform ?? {};
  const lossy = isLossy(source);
  const outputFor = (hasAlpha: boolean): ImageOutput => {
    if (output !== 'auto') return output;
    return lossy && !hasAlpha ? 'jpeg' : 'webp_lossless';
  };
  const plan = (kind: ImagePlan['kind'], size?: ImageSize, isNeeded = false): ImagePlan => ({
    ...{ kind, size, isNeeded, isRefused: isTranscoded, background, outputFor },
    parameters: [kind, size, output, background, lossy],
  });
  const { width, height } = source;
  if (!isFit || width === undefined || height === undefined || !decodable.has(contentType)) {
    return isTranscoded ? plan('transcoded', undefined, true) : plan('unchanged');
  }
  const { orientation, frames } = imageDetails(contentType, bytes);
  const isTurned = orientation > 1;
  if (width * height <= transform.maxPixels) {
    if (isTranscoded) return plan('transcoded', undefined, true);
    return isTurned && transform.bakesOrientation
      ? plan('reoriented', undefined, true)
      : plan('unchanged');
  }
  const ratio = Math.max(width, height) / Math.min(width, height);
  refuse('times the short side', limits.maxAspectRatio, ratio);
  refuse('frames', limits.maxFrames, frames);
  // From 5 on the picture lies on its side.
  const upright = orientation >= 5 ? { width: height, height: width } : { width, height };
  return plan('shrunk', targetSize(upright, transform), isTranscoded);
}

function refuse(what: string, limit: number, actual: number): void {
  if (actual > limit) {
    throw new MediaError(
      'media_dimensions_exceeded',
      `downloading image: it exceeds ${limit} ${what}`,
      { limit, actual },
    );
  }
}
