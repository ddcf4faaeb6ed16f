/** Pixels as rows of red, green and blue bytes without gaps. */
export interface RgbImage {
  readonly width: number;
  readonly height: number;
  /** `width * height * 3` bytes. */
  readonly data: Uint8Array;
}

/** Red, green and blue, 0 to 255. */
export type RgbColor = readonly [number, number, number];
