import { type RgbImage } from './rgb-image.ts';

const CHANNELS = 3;
/** Frames of a patch; a still image fills both with the same pixels. */
const FRAMES = 2;

/** Side of a patch in pixels, and patches per side that one token stands for. */
export interface PatchLayout {
  readonly patchSize: number;
  readonly mergeSize: number;
}

/** Bytes of one patch: three channels, two equal frames, rows of pixels. */
export function valuesPerPatch(patchSize: number): number {
  return CHANNELS * FRAMES * patchSize ** 2;
}

/**
 * Writes an image as the patch matrix of Qwen's processors, one row of `valuesPerPatch` bytes per patch, the patches of
 * a token side by side. Both sides of the image are multiples of `patchSize * mergeSize`.
 */
export function patchify(image: RgbImage, layout: PatchLayout, target: Uint8Array): void {
  const { patchSize, mergeSize } = layout;
  const { width, height } = image;
  const cell = patchSize * mergeSize;
  let write = 0;
  for (let cellY = 0; cellY < height; cellY += cell) {
    for (let cellX = 0; cellX < width; cellX += cell) {
      for (let y = cellY; y < cellY + cell; y += patchSize) {
        for (let x = cellX; x < cellX + cell; x += patchSize) {
          writePatch(image, x, y, patchSize, target, write);
          write += valuesPerPatch(patchSize);
        }
      }
    }
  }
}

function writePatch(
  { data, width }: RgbImage,
  left: number,
  top: number,
  patchSize: number,
  target: Uint8Array,
  start: number,
): void {
  const frameBytes = patchSize ** 2;
  const channelBytes = FRAMES * frameBytes;
  let red = start;
  let green = red + channelBytes;
  let blue = green + channelBytes;
  // One pass over the pixels for all channels: they lie side by side.
  for (let y = top; y < top + patchSize; y++) {
    let read = (y * width + left) * CHANNELS;
    for (let x = 0; x < patchSize; x++) {
      target[red++] = data[read++] ?? 0;
      target[green++] = data[read++] ?? 0;
      target[blue++] = data[read++] ?? 0;
    }
  }
  for (let first = start; first < start + CHANNELS * channelBytes; first += channelBytes) {
    target.copyWithin(first + frameBytes, first, first + frameBytes);
  }
}
