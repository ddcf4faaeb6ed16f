/** Pixels as rows of red, green and blue bytes without gaps. */
export interface RgbImage {
  readonly width: number;
  readonly height: number;
  /** `width * height * 3` bytes. */
  readonly data: Uint8Array;
}

/** Red, green and blue, 0 to 255. */
export type RgbColor = readonly [number, number, number];

/**
 * Gives the memory of pixels back before the collector comes, after their last use: megabytes would pile up until then,
 * and every fresh page costs time.
 */
export function releasePixels({ buffer, byteLength }: Uint8Array): void {
  if (buffer instanceof ArrayBuffer && buffer.byteLength === byteLength) buffer.transfer(0);
}
