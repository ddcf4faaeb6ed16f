import { badRequest } from '../errors.ts';

/** Sides that differ more than this are refused. */
const MAX_SIDE_RATIO = 200;

/** Geometry of a Qwen-VL image processor. */
export interface ImageGeometry {
  /** Side of a patch in pixels. */
  readonly patchSize: number;
  /** Patches per side that one token stands for. */
  readonly mergeSize: number;
  readonly minPixels: number;
  readonly maxPixels: number;
  readonly doResize: boolean;
}

/** Patches of an image: frames, rows, columns. */
export type GridThw = readonly [number, number, number];

/** The patch grid of an image, by the rule of Qwen's processors; throws a 400 for sizes they refuse. */
export function imageGrid(width: number, height: number, geometry: ImageGeometry): GridThw {
  const { patchSize, mergeSize } = geometry;
  const factor = patchSize * mergeSize;
  const [resizedHeight, resizedWidth] = geometry.doResize
    ? smartResize(height, width, factor, geometry.minPixels, geometry.maxPixels)
    : [height, width];
  if (resizedHeight % factor !== 0 || resizedWidth % factor !== 0) {
    throw badRequest(
      `Without do_resize both sides must be multiples of ${factor}, got ${width}x${height}.`,
    );
  }
  return [1, resizedHeight / patchSize, resizedWidth / patchSize];
}

/** Placeholder tokens of a grid. */
export function tokenCount([frames, rows, columns]: GridThw, mergeSize: number): number {
  return (frames * rows * columns) / mergeSize ** 2;
}

/** Target height and width: multiples of `factor` whose product lies between the pixel bounds. */
export function smartResize(
  height: number,
  width: number,
  factor: number,
  minPixels: number,
  maxPixels: number,
): [number, number] {
  if (Math.max(height, width) / Math.min(height, width) > MAX_SIDE_RATIO) {
    throw badRequest(
      `absolute aspect ratio must be smaller than ${MAX_SIDE_RATIO}, got ${width}x${height}`,
    );
  }
  const rounded: [number, number] = [
    factor * roundHalfEven(height / factor),
    factor * roundHalfEven(width / factor),
  ];
  const pixels = rounded[0] * rounded[1];
  if (pixels > maxPixels) {
    const shrink = Math.sqrt((height * width) / maxPixels);
    return [
      Math.max(factor, factor * Math.floor(height / shrink / factor)),
      Math.max(factor, factor * Math.floor(width / shrink / factor)),
    ];
  }
  if (pixels < minPixels) {
    const grow = Math.sqrt(minPixels / (height * width));
    return [
      factor * Math.ceil((height * grow) / factor),
      factor * Math.ceil((width * grow) / factor),
    ];
  }
  return rounded;
}

/** Python's `round`: halves go to the even neighbour. */
export function roundHalfEven(value: number): number {
  const floor = Math.floor(value);
  const fraction = value - floor;
  if (fraction === 0.5) return floor % 2 === 0 ? floor : floor + 1;
  return fraction < 0.5 ? floor : floor + 1;
}
