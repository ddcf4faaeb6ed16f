import { type ImageSize } from '../image-size.ts';
import { type TransformRules } from './rules.ts';

/** To the nearest whole number, halves to the even one, as the model's own code rounds. */
function roundHalfEven(value: number): number {
  const floor = Math.floor(value);
  const rest = value - floor;
  if (rest !== 0.5) return Math.round(value);
  return floor % 2 === 0 ? floor : floor + 1;
}

/**
 * The size that the model's preprocessor computes for an image: multiples of the factor whose product lies
 * between the pixel limits. Applied to its own result it gives that result.
 */
export function targetSize(
  { width, height }: ImageSize,
  { factor, minPixels, maxPixels }: Pick<TransformRules, 'factor' | 'minPixels' | 'maxPixels'>,
): ImageSize {
  const sides = (fit: (side: number) => number): ImageSize => ({
    width: Math.max(factor, fit(width) * factor),
    height: Math.max(factor, fit(height) * factor),
  });
  const rounded = sides((side) => roundHalfEven(side / factor));
  const pixels = rounded.width * rounded.height;
  if (pixels > maxPixels) {
    const scale = Math.sqrt((width * height) / maxPixels);
    return sides((side) => Math.floor(side / scale / factor));
  }
  if (pixels < minPixels) {
    const scale = Math.sqrt(minPixels / (width * height));
    return sides((side) => Math.ceil((side * scale) / factor));
  }
  return rounded;
}
