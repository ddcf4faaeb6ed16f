import { type RgbColor } from './rgb-image.ts';

/** Pastes RGBA pixels on a colour, with the rounding of Pillow's `paste`. */
export function pasteRgba(rgba: Uint8Array, background: RgbColor): Uint8Array {
  const pixels = rgba.length / 4;
  const rgb = new Uint8Array(pixels * 3);
  for (let pixel = 0; pixel < pixels; pixel++) {
    const alpha = rgba[pixel * 4 + 3] ?? 0;
    for (let channel = 0; channel < 3; channel++) {
      const value = rgba[pixel * 4 + channel] ?? 0;
      const behind = background[channel] ?? 0;
      rgb[pixel * 3 + channel] = divideBy255(value * alpha + behind * (255 - alpha));
    }
  }
  return rgb;
}

/** Turns CMYK pixels (255 = full ink) into RGB as Pillow does, without a colour profile. */
export function cmykToRgb(cmyk: Uint8Array): Uint8Array {
  const pixels = cmyk.length / 4;
  const rgb = new Uint8Array(pixels * 3);
  for (let pixel = 0; pixel < pixels; pixel++) {
    const light = 255 - (cmyk[pixel * 4 + 3] ?? 0);
    for (let channel = 0; channel < 3; channel++) {
      const ink = cmyk[pixel * 4 + channel] ?? 0;
      rgb[pixel * 3 + channel] = light - divideBy255(ink * light);
    }
  }
  return rgb;
}

/** Turns 16-bit grey samples into RGB: Pillow clips them at 255, it does not scale. */
export function clippedGreyToRgb(samples: Uint16Array): Uint8Array {
  const rgb = new Uint8Array(samples.length * 3);
  samples.forEach((sample, pixel) => {
    rgb.fill(Math.min(sample, 255), pixel * 3, pixel * 3 + 3);
  });
  return rgb;
}

/** `value / 255`, rounded, for products of two bytes. */
function divideBy255(value: number): number {
  const biased = value + 128;
  return (biased + (biased >> 8)) >> 8;
}
