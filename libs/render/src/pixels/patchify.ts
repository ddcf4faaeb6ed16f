import { endianness } from 'node:os';

import { type RgbImage } from './rgb-image.ts';

const CHANNELS = 3;
/** Frames of a patch; a still image fills both with the same pixels. */
const FRAMES = 2;
/** Pixels that are moved at a time where they are whole words in memory. */
const WORD_PIXELS = 4;

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
  image: RgbImage,
  { patchSize, mergeSize }: PatchLayout,
  write: (patch: Uint8Array) => void,
): void {
  const { width, height } = image;
  const cell = patchSize * mergeSize;
  const patch = new Uint8Array(valuesPerPatch(patchSize));
  const fill = patchFiller(image, patchSize, patch);
  for (let cellY = 0; cellY < height; cellY += cell) {
    for (let cellX = 0; cellX < width; cellX += cell) {
      for (let y = cellY; y < cellY + cell; y += patchSize) {
        for (let x = cellX; x < cellX + cell; x += patchSize) {
          fill(x, y);
          write(patch);
        }
      }
    }
  }
}

/** Fills a patch with the pixels right of and below a place. */
type PatchFiller = (left: number, top: number) => void;

function patchFiller(image: RgbImage, patchSize: number, patch: Uint8Array): PatchFiller {
  const { data, width } = image;
  const isInWords =
    endianness() === 'LE' &&
    patchSize % WORD_PIXELS === 0 &&
    width % WORD_PIXELS === 0 &&
    data.byteOffset % Uint32Array.BYTES_PER_ELEMENT === 0;
  return isInWords ? wordFiller(image, patchSize, patch) : byteFiller(image, patchSize, patch);
}

function byteFiller({ data, width }: RgbImage, patchSize: number, patch: Uint8Array): PatchFiller {
  const frameBytes = patchSize ** 2;
  const channelBytes = FRAMES * frameBytes;
  return (left, top) => {
    let red = 0;
    let green = red + channelBytes;
    let blue = green + channelBytes;
    // One pass over the pixels for all channels: they lie side by side.
    for (let y = top; y < top + patchSize; y++) {
      let read = (y * width + left) * CHANNELS;
      for (let x = 0; x < patchSize; x++) {
        patch[red++] = data[read++] ?? 0;
        patch[green++] = data[read++] ?? 0;
        patch[blue++] = data[read++] ?? 0;
      }
    }
    for (let first = 0; first < patch.length; first += channelBytes) {
      patch.copyWithin(first + frameBytes, first, first + frameBytes);
    }
  };
}

/** Four pixels, which are three words, become a word of each channel. */
function wordFiller({ data, width }: RgbImage, patchSize: number, patch: Uint8Array): PatchFiller {
  const input = new Int32Array(data.buffer, data.byteOffset, data.length >> 2);
  const output = new Int32Array(patch.buffer);
  const frameWords = patchSize ** 2 / WORD_PIXELS;
  const channelWords = FRAMES * frameWords;
  const rowWords = (width / WORD_PIXELS) * CHANNELS;
  return (left, top) => {
    let write = 0;
    const start = top * rowWords + (left / WORD_PIXELS) * CHANNELS;
    for (let row = 0; row < patchSize; row++) {
      let read = start + row * rowWords;
      for (let x = 0; x < patchSize; x += WORD_PIXELS) {
        // In memory: rgbr gbrg brgb.
        const first = input[read++] ?? 0;
        const second = input[read++] ?? 0;
        const third = input[read++] ?? 0;
        const red =
          (first & 0xff) |
          ((first >>> 16) & 0xff00) |
          (second & 0xff0000) |
          ((third << 16) & 0xff000000);
        const green =
          ((first >>> 8) & 0xff) |
          ((second << 8) & 0xff00) |
          ((second >>> 8) & 0xff0000) |
          ((third << 8) & 0xff000000);
        const blue =
          ((first >>> 16) & 0xff) |
          (second & 0xff00) |
          ((third << 16) & 0xff0000) |
          (third & 0xff000000);
        output[write] = red;
        output[write + frameWords] = red;
        output[write + channelWords] = green;
        output[write + channelWords + frameWords] = green;
        output[write + 2 * channelWords] = blue;
        output[write + 2 * channelWords + frameWords] = blue;
        write += 1;
      }
    }
  };
}
