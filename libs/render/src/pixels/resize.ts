import { type RgbImage } from './rgb-image.ts';

/**
 * How exact filter weights are: 16-bit integers as in torch (the default processors of vLLM, through torchvision), or
 * 22 bits behind the point as in Pillow (the "slow" processors).
 */
export type ResizeWeights = 'torch' | 'pillow';

const CHANNELS = 3;
/** Radius of the bicubic filter at scale 1. */
const SUPPORT = 2;
const MAX_WEIGHT_BITS = 22;
const MAX_INT16 = 32_767;

/** Weighted window of input samples per output sample of an axis. */
interface Axis {
  /** First input sample of each window. */
  readonly starts: Int32Array;
  /** Samples of each window. */
  readonly lengths: Int32Array;
  /** `stride` weights per window, scaled by `2 ** bits`. */
  readonly weights: Int32Array;
  readonly stride: number;
  readonly bits: number;
}

/**
 * Bicubic resize with antialiasing, bit for bit as torch or Pillow do it on bytes: first the rows, then the columns,
 * with bytes in between. An unchanged side is not filtered.
 */
export function resize(
  image: RgbImage,
  width: number,
  height: number,
  weights: ResizeWeights = 'torch',
): RgbImage {
  const wide =
    width === image.width ? image : resizeRows(image, width, axis(image.width, width, weights));
  return height === wide.height
    ? wide
    : resizeColumns(wide, height, axis(image.height, height, weights));
}

function resizeRows(image: RgbImage, width: number, axis: Axis): RgbImage {
  const { starts, lengths, weights, stride, bits } = axis;
  const { data: input, height } = image;
  const data = new Uint8ClampedArray(width * height * CHANNELS);
  const half = 1 << (bits - 1);
  let write = 0;
  for (let y = 0; y < height; y++) {
    const row = y * image.width;
    for (let x = 0; x < width; x++) {
      let read = (row + (starts[x] ?? 0)) * CHANNELS;
      let red = half;
      let green = half;
      let blue = half;
      const first = x * stride;
      const end = first + (lengths[x] ?? 0);
      for (let tap = first; tap < end; tap++, read += CHANNELS) {
        const weight = weights[tap] ?? 0;
        red = (red + Math.imul(input[read] ?? 0, weight)) | 0;
        green = (green + Math.imul(input[read + 1] ?? 0, weight)) | 0;
        blue = (blue + Math.imul(input[read + 2] ?? 0, weight)) | 0;
      }
      data[write] = red >> bits;
      data[write + 1] = green >> bits;
      data[write + 2] = blue >> bits;
      write += CHANNELS;
    }
  }
  return { width, height, data: new Uint8Array(data.buffer) };
}

function resizeColumns(image: RgbImage, height: number, axis: Axis): RgbImage {
  const { starts, lengths, weights, stride, bits } = axis;
  const { data: input, width } = image;
  const rowBytes = width * CHANNELS;
  const data = new Uint8ClampedArray(rowBytes * height);
  const sums = new Int32Array(rowBytes);
  for (let y = 0; y < height; y++) {
    sums.fill(1 << (bits - 1));
    const first = y * stride;
    const length = lengths[y] ?? 0;
    const start = starts[y] ?? 0;
    // Two rows in one go: the sums are read and written half as often.
    for (let tap = 0; tap < length; tap += 2) {
      const upper = (start + tap) * rowBytes;
      const isPair = tap + 1 < length;
      const lower = isPair ? upper + rowBytes : upper;
      const upperWeight = weights[first + tap] ?? 0;
      const lowerWeight = isPair ? (weights[first + tap + 1] ?? 0) : 0;
      for (let at = 0; at < rowBytes; at++) {
        const both =
          Math.imul(input[upper + at] ?? 0, upperWeight) +
          Math.imul(input[lower + at] ?? 0, lowerWeight);
        sums[at] = ((sums[at] ?? 0) + both) | 0;
      }
    }
    const write = y * rowBytes;
    for (let at = 0; at < rowBytes; at++) data[write + at] = (sums[at] ?? 0) >> bits;
  }
  return { width, height, data: new Uint8Array(data.buffer) };
}

function axis(inputSize: number, outputSize: number, precision: ResizeWeights): Axis {
  const scale = inputSize / outputSize;
  const stretch = Math.max(scale, 1);
  const radius = SUPPORT * stretch;
  const stride = Math.ceil(radius) * 2 + 1;
  const starts = new Int32Array(outputSize);
  const lengths = new Int32Array(outputSize);
  const exact = new Float64Array(outputSize * stride);
  for (let index = 0; index < outputSize; index++) {
    const centre = (index + 0.5) * scale;
    const start = Math.max(Math.trunc(centre - radius + 0.5), 0);
    const length = Math.min(Math.trunc(centre + radius + 0.5), inputSize) - start;
    const window = exact.subarray(index * stride, index * stride + length);
    window.forEach((_, tap) => {
      window[tap] = cubic((tap + start - centre + 0.5) / stretch);
    });
    const sum = window.reduce((total, weight) => total + weight, 0);
    window.forEach((weight, tap) => {
      window[tap] = weight / sum;
    });
    starts[index] = start;
    lengths[index] = length;
  }
  const bits = precision === 'pillow' ? MAX_WEIGHT_BITS : int16Bits(exact);
  const weights = Int32Array.from(exact, (weight) => {
    const scaled = weight * 2 ** bits;
    return Math.trunc(scaled < 0 ? scaled - 0.5 : scaled + 0.5);
  });
  return { starts, lengths, weights, stride, bits };
}

/** The bits behind the point with which the largest weight still fits 16 bits. */
function int16Bits(weights: Float64Array): number {
  const largest = weights.reduce((max, weight) => Math.max(max, weight), 0);
  let bits = 0;
  while (bits < MAX_WEIGHT_BITS && Math.trunc(0.5 + largest * 2 ** (bits + 1)) <= MAX_INT16) bits++;
  return bits;
}

/** The cubic convolution kernel with a = -0.5. */
function cubic(distance: number): number {
  const x = Math.abs(distance);
  if (x < 1) return (1.5 * x - 2.5) * x * x + 1;
  if (x < 2) return ((-0.5 * x + 2.5) * x - 4) * x + 2;
  return 0;
}
