import { FREE_FROM, MARGIN_BYTES, pixelKernels, reserveMemory } from './pixel-kernels.ts';
import { type RgbImage } from './rgb-image.ts';

const CHANNELS = 3;
/** Frames of a patch; a still image fills both with the same pixels. */
const FRAMES = 2;

const kernels = pixelKernels();

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
 * Gives an image as the patch matrix of Qwen's processors, one row of `valuesPerPatch` bytes after the other, the
 * patches of a token in a row. Both sides of the image are multiples of `patchSize * mergeSize`. `write` gets the same
 * bytes for every patch, to be read before it returns.
 */
export function patchify(
  { data, width, height }: RgbImage,
  { patchSize, mergeSize }: PatchLayout,
  write: (patch: Uint8Array) => void,
): void {
  const cell = patchSize * mergeSize;
  const rowBytes = width * CHANNELS;
  const patchBytes = valuesPerPatch(patchSize);
  const pixelsFrom = FREE_FROM + patchBytes + MARGIN_BYTES;
  reserveMemory(kernels, pixelsFrom + cell * rowBytes + MARGIN_BYTES);
  const { buffer } = kernels.memory;
  const patch = new Uint8Array(buffer, FREE_FROM, patchBytes);
  const pixels = new Uint8Array(buffer, pixelsFrom, cell * rowBytes);
  for (let cellY = 0; cellY < height; cellY += cell) {
    pixels.set(data.subarray(cellY * rowBytes, (cellY + cell) * rowBytes));
    for (let cellX = 0; cellX < width; cellX += cell) {
      for (let y = 0; y < cell; y += patchSize) {
        for (let x = cellX; x < cellX + cell; x += patchSize) {
          const from = pixelsFrom + y * rowBytes + x * CHANNELS;
          kernels.patch(from, rowBytes, patchSize, FREE_FROM);
          write(patch);
        }
      }
    }
  }
}
