import { roundHalfEven } from '../image/geometry.ts';
import { type RgbColor } from './rgb-image.ts';
import { BYTES_PER_VALUE, type PixelDtype } from './tensor-blob.ts';

/** Mean and standard deviation per channel, for values from 0 to 1. */
export interface Normalisation {
  readonly mean: RgbColor;
  readonly std: RgbColor;
}

const CHANNELS = 3;
const LEVELS = 256;
const FLOAT16_FRACTION_BITS = 10;
const MIN_FLOAT16_EXPONENT = -14;

/** Element types of normalised values. */
export type FloatDtype = Exclude<PixelDtype, 'uint8'>;

/**
 * Normalises patches, rows of one channel after the other, into little-endian values, in float32 and rounded to even as
 * torch does. What it returns holds the values of a patch until the next one.
 */
export function normalisedPatches(
  normalisation: Normalisation,
  dtype: FloatDtype,
  patchBytes: number,
): (patch: Uint8Array) => Uint8Array {
  const table = levelTable(normalisation, dtype);
  const channelBytes = patchBytes / CHANNELS;
  const size = BYTES_PER_VALUE[dtype];
  const values = new Uint8Array(patchBytes * size);
  return (patch) => {
    for (let channel = 0; channel < CHANNELS; channel++) {
      const offset = channel * LEVELS;
      const end = (channel + 1) * channelBytes;
      for (let at = channel * channelBytes; at < end; at++) {
        const bits = table[offset + (patch[at] ?? 0)] ?? 0;
        for (let byte = 0; byte < size; byte++) values[at * size + byte] = bits >>> (8 * byte);
      }
    }
    return values;
  };
}

/** The bits of every normalised level, channel by channel. */
function levelTable({ mean, std }: Normalisation, dtype: FloatDtype): Uint32Array {
  const table = new Uint32Array(CHANNELS * LEVELS);
  for (let channel = 0; channel < CHANNELS; channel++) {
    const centre = Math.fround((mean[channel] ?? 0) * 255);
    const spread = Math.fround((std[channel] ?? 1) * 255);
    for (let level = 0; level < LEVELS; level++) {
      const bits = FLOAT_BITS[dtype](Math.fround(Math.fround(level - centre) / spread));
      table[channel * LEVELS + level] = bits;
    }
  }
  return table;
}

/** The bits of a float32 value in each type, rounded to nearest, halves to even. Not for NaN. */
const FLOAT_BITS: Readonly<Record<FloatDtype, (value: number) => number>> = {
  float32: float32Bits,
  bfloat16: (value) => {
    const bits = float32Bits(value);
    return (bits + 0x7fff + ((bits >>> 16) & 1)) >>> 16;
  },
  float16: (value) => {
    const magnitude = Math.abs(value);
    // Steps of the last place: 10 bits behind the first one, and no finer than those of the smallest normal value.
    const exponent = Math.max(Math.floor(Math.log2(magnitude)), MIN_FLOAT16_EXPONENT);
    const step = 2 ** (exponent - FLOAT16_FRACTION_BITS);
    const steps = roundHalfEven(magnitude / step);
    const exponentBits = (exponent - MIN_FLOAT16_EXPONENT) << FLOAT16_FRACTION_BITS;
    // Steps count the implicit first bit, which makes the exponent field one more.
    return (value < 0 ? 0x8000 : 0) | (exponentBits + steps);
  },
};

function float32Bits(value: number): number {
  return new Uint32Array(Float32Array.of(value).buffer)[0] ?? 0;
}
