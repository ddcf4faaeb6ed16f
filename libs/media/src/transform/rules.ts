/** How images are made smaller before the workers get them (media-fetcher.md 5.5). */
export interface TransformRules {
  /** `fit`: images of more than `maxPixels` are shrunk to the size that the model would make of them. */
  readonly mode: 'off' | 'fit';
  /** The model's sides are multiples of it. */
  readonly factor: number;
  readonly minPixels: number;
  readonly maxPixels: number;
  readonly output: 'auto' | 'jpeg' | 'webp_lossless' | 'png';
  /** Stands behind transparent pixels where the output has none; must be the reader's. */
  readonly background: string;
  /** Also re-encodes small images that EXIF turns, for readers that do not know about it. */
  readonly bakesOrientation: boolean;
}
