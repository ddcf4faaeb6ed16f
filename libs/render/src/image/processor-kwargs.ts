import { asGap, badRequest } from '../errors.ts';
import { type JsonObject, type JsonValue } from '../json/json-value.ts';
import { type PixelDtype } from '../pixels/tensor-blob.ts';
import { type ImageGeometry } from './geometry.ts';

const PARAM = 'mm_processor_kwargs';
/** Options that change normalised pixels only; with raw ones they count for the hash and nothing else. */
const NORMALISING = new Set(['do_normalize', 'do_rescale', 'rescale_factor']);

/** The geometry after a request's `mm_processor_kwargs`; a key without a rule here is refused, not ignored. */
export function withProcessorKwargs(
  geometry: ImageGeometry,
  kwargs: JsonObject,
  dtype: PixelDtype,
): ImageGeometry {
  let current = geometry;
  for (const [key, value] of kwargs) {
    if (key === 'images_kwargs') {
      if (!(value instanceof Map)) throw badRequest(`${PARAM}.${key} must be an object`, PARAM);
      current = withProcessorKwargs(current, value, dtype);
    } else if (!NORMALISING.has(key) || dtype !== 'uint8') {
      current = { ...current, ...override(key, value) };
    }
  }
  return current;
}

function override(key: string, value: JsonValue): Partial<ImageGeometry> {
  switch (key) {
    case 'min_pixels':
      return { minPixels: pixels(key, value) };
    case 'max_pixels':
      return { maxPixels: pixels(key, value) };
    case 'size':
      return size(value);
    case 'do_resize':
      if (typeof value !== 'boolean') throw badRequest(`${PARAM}.${key} must be a boolean`, PARAM);
      return { doResize: value };
    default:
      throw asGap(badRequest(`${PARAM}.${key} is not supported`, PARAM));
  }
}

function size(value: JsonValue): Partial<ImageGeometry> {
  if (!(value instanceof Map)) throw badRequest(`${PARAM}.size must be an object`, PARAM);
  const overrides: { minPixels?: number; maxPixels?: number } = {};
  for (const [key, bound] of value) {
    if (key === 'shortest_edge') overrides.minPixels = pixels(`size.${key}`, bound);
    else if (key === 'longest_edge') overrides.maxPixels = pixels(`size.${key}`, bound);
    else throw badRequest(`${PARAM}.size.${key} is not supported`, PARAM);
  }
  return overrides;
}

function pixels(key: string, value: JsonValue): number {
  if (typeof value !== 'bigint' || value < 1n) {
    throw badRequest(`${PARAM}.${key} must be a positive integer`, PARAM);
  }
  return Number(value);
}
