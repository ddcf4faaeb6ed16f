import { type RgbColor } from './rgb-image.ts';

/** Mean and standard deviation per channel, for values from 0 to 1. */
export interface Normalisation {
  readonly mean: RgbColor;
  readonly std: RgbColor;
}

const CHANNELS = 3;
const LEVELS = 256;

/**
 * Normalises patch rows into little-endian bfloat16 values, in float32 and rounded to even as torch does.
 * `target` takes two bytes per byte of `patches`.
 */
export function writeBfloat16(
  patches: Uint8Array,
  bytesPerPatch: number,
  normalisation: Normalisation,
  target: Uint8Array,
): void {
  const table = bfloat16Table(normalisation);
  const bytesPerChannel = bytesPerPatch / CHANNELS;
  for (let start = 0, channel = 0; start < patches.length; start += bytesPerChannel, channel++) {
    const offset = (channel % CHANNELS) * LEVELS;
    for (let at = start; at < start + bytesPerChannel; at++) {
      const bits = table[offset + (patches[at] ?? 0)] ?? 0;
      target[at * 2] = bits;
      target[at * 2 + 1] = bits >> 8;
    }
  }
}

/** Bits of every normalised level, channel by channel. */
function bfloat16Table({ mean, std }: Normalisation): Uint16Array {
  const table = new Uint16Array(CHANNELS * LEVELS);
  for (let channel = 0; channel < CHANNELS; channel++) {
    const centre = Math.fround((mean[channel] ?? 0) * 255);
    const spread = Math.fround((std[channel] ?? 1) * 255);
    for (let level = 0; level < LEVELS; level++) {
      table[channel * LEVELS + level] = bfloat16(Math.fround(Math.fround(level - centre) / spread));
    }
  }
  return table;
}

/** The upper half of a float32, rounded to nearest, halves to even. Not for NaN. */
function bfloat16(value: number): number {
  const bits = new DataView(new ArrayBuffer(4));
  bits.setFloat32(0, value);
  const word = bits.getUint32(0);
  return (word + 0x7fff + ((word >>> 16) & 1)) >>> 16;
}
