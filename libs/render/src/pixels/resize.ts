import { FREE_FROM, MARGIN_BYTES, pixelKernels, reserveMemory } from './pixel-kernels.ts';
import { releasePixels, type RgbImage } from './rgb-image.ts';

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
/** Rows that are made at a time. */
const BLOCK_ROWS = 32;
const WEIGHT_BYTES = Int32Array.BYTES_PER_ELEMENT;
const WINDOW_BYTES = 2 * Int32Array.BYTES_PER_ELEMENT;

const kernels = pixelKernels();

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
  if (height === wide.height) return wide;
  const resized = resizeColumns(wide, height, axis(image.height, height, weights));
  if (wide !== image) releasePixels(wide.data);
  return resized;
}

function resizeRows(image: RgbImage, width: number, axis: Axis): RgbImage {
  const { bits, stride, starts, lengths } = axis;
  const { height } = image;
  const rowBytes = width * CHANNELS;
  const given = image.width * CHANNELS;
  const windowsFrom = FREE_FROM;
  const weightsFrom = windowsFrom + width * WINDOW_BYTES;
  const from = weightsFrom + width * stride * WEIGHT_BYTES;
  const to = from + given + MARGIN_BYTES;
  reserveMemory(kernels, to + rowBytes + MARGIN_BYTES);
  const { buffer } = kernels.memory;
  const windows = new Int32Array(buffer, windowsFrom, width * 2);
  for (let x = 0; x < width; x++) {
    windows[2 * x] = (starts[x] ?? 0) * CHANNELS;
    windows[2 * x + 1] = lengths[x] ?? 0;
  }
  new Int32Array(buffer, weightsFrom).set(axis.weights);
  const input = new Uint8Array(buffer, from, given);
  const output = new Uint8Array(buffer, to, rowBytes);
  const data = new Uint8Array(rowBytes * height);
  for (let y = 0; y < height; y++) {
    input.set(image.data.subarray(y * given, (y + 1) * given));
    kernels.filterRow(
      from,
      to,
      to + rowBytes,
      windowsFrom,
      weightsFrom,
      stride * WEIGHT_BYTES,
      bits,
    );
    data.set(output, y * rowBytes);
  }
  return { width, height, data };
}

function resizeColumns(image: RgbImage, height: number, axis: Axis): RgbImage {
  const { bits, stride, starts, lengths } = axis;
  const { width } = image;
  const rowBytes = width * CHANNELS;
  const firstRow = (y: number): number => starts[y] ?? 0;
  const endRow = (y: number): number => firstRow(y) + (lengths[y] ?? 0);
  const blockEnd = (y: number): number => Math.min(y + BLOCK_ROWS, height);
  let inputRows = 0;
  for (let y = 0; y < height; y += BLOCK_ROWS) {
    inputRows = Math.max(inputRows, endRow(blockEnd(y) - 1) - firstRow(y));
  }
  const from = FREE_FROM + height * stride * WEIGHT_BYTES;
  const to = from + inputRows * rowBytes + MARGIN_BYTES;
  reserveMemory(kernels, to + BLOCK_ROWS * rowBytes + MARGIN_BYTES);
  const { buffer } = kernels.memory;
  new Int32Array(buffer, FREE_FROM).set(axis.weights);
  const data = new Uint8Array(rowBytes * height);
  for (let block = 0; block < height; block += BLOCK_ROWS) {
    const end = blockEnd(block);
    const first = firstRow(block);
    const rows = image.data.subarray(first * rowBytes, endRow(end - 1) * rowBytes);
    new Uint8Array(buffer, from).set(rows);
    for (let y = block; y < end; y++) {
      kernels.filterColumns(
        from + (firstRow(y) - first) * rowBytes,
        rowBytes,
        lengths[y] ?? 0,
        FREE_FROM + y * stride * WEIGHT_BYTES,
        bits,
        to + (y - block) * rowBytes,
      );
    }
    data.set(new Uint8Array(buffer, to, (end - block) * rowBytes), block * rowBytes);
  }
  return { width, height, data };
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
