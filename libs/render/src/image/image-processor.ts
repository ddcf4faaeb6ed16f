import { badRequest } from '../errors.ts';
import { type ImageReference } from '../chat/content-parts.ts';
import { type JsonObject, type JsonValue } from '../json/json-value.ts';
import { type TensorJob, type TensorSettings } from '../pixels/build-tensor.ts';
import { type RgbColor } from '../pixels/rgb-image.ts';
import { readImageUrl } from './data-url.ts';
import { imageGrid, tokenCount, type GridThw, type ImageGeometry } from './geometry.ts';
import { iconPicture } from './icon.ts';
import { readImageHeader } from './image-header.ts';
import { mmHash, type HashAlgorithm, type HashScheme } from './mm-hash.ts';
import { withProcessorKwargs } from './processor-kwargs.ts';

const WHITE = [255, 255, 255] as const;
/** Pixels of all images of a request. */
const MAX_REQUEST_PIXELS = 200_000_000;
const BACKGROUND = 'rgba_background_color';

/** How the images of a profile are measured and hashed. */
export interface ImageSettings {
  readonly geometry: ImageGeometry;
  /** How pixels become tensors; the patches are those of `geometry`. */
  readonly tensors: Omit<TensorSettings, 'patchSize' | 'mergeSize'>;
  readonly hashModelId: string;
  readonly hashAlgorithm: HashAlgorithm;
  readonly hashScheme: HashScheme;
  /** Images per request. */
  readonly maxImages: number;
  /** Pixels per image, checked on the header. */
  readonly maxPixels: number;
}

/** Options of a request that change its images. */
export interface ImageOptions {
  readonly mediaIo: JsonObject;
  readonly processor: JsonObject;
}

/** What an image contributes to a prompt before its place in the tokens is known. */
export interface MeasuredImage {
  readonly hash: string;
  readonly grid: GridThw;
  readonly tokens: number;
  readonly width: number;
  readonly height: number;
  /** How to make its pixels; nothing is decoded yet. */
  readonly tensorJob: TensorJob;
}

/** Measures and hashes the images of a request from their headers, one after the other. */
export async function measureImages(
  references: readonly ImageReference[],
  settings: ImageSettings,
  options: ImageOptions,
  signal?: AbortSignal,
): Promise<MeasuredImage[]> {
  if (references.length > settings.maxImages) {
    throw badRequest(
      `At most ${settings.maxImages} image(s) may be provided in one prompt. (parameter=image)`,
      'image',
    );
  }
  const geometry = withProcessorKwargs(
    settings.geometry,
    options.processor,
    settings.tensors.dtype,
  );
  const background = backgroundColor(options.mediaIo);
  const measured: MeasuredImage[] = [];
  let pixels = 0;
  for (const reference of references) {
    signal?.throwIfAborted();
    const image = await measure(reference, settings, geometry, options, background);
    pixels += image.width * image.height;
    if (pixels > MAX_REQUEST_PIXELS) {
      throw badRequest(`The images have more than ${MAX_REQUEST_PIXELS} pixels together.`);
    }
    measured.push(image);
  }
  return measured;
}

async function measure(
  { url, uuid }: ImageReference,
  settings: ImageSettings,
  geometry: ImageGeometry,
  options: ImageOptions,
  background: RgbColor,
): Promise<MeasuredImage> {
  if (url === '') {
    throw badRequest(
      "multi_modal_data['image'][0] is empty but multi_modal_uuids['image'][0] is missing. (parameter=multi_modal_uuids)",
      'multi_modal_uuids',
    );
  }
  const file = readImageUrl(url);
  const picture = iconPicture(file) ?? file;
  const { source, width, height, isConverted } = await readImageHeader(picture, settings.maxPixels);
  const grid = imageGrid(width, height, geometry);
  const factors = {
    media_io_kwargs: ownMediaIo(options.mediaIo),
    mm_processor_kwargs: options.processor,
  };
  const hasFactors = Object.values(factors).some((factor) => factor.size > 0);
  const hash =
    uuid !== undefined && !hasFactors
      ? uuid
      : mmHash({
          modelId: settings.hashModelId,
          algorithm: settings.hashAlgorithm,
          scheme: settings.hashScheme,
          content: uuid ?? file,
          ...(isConverted && { convertedOn: background }),
          factors,
        });
  const work = {
    grid,
    pixels: width * height,
    background,
    settings: {
      ...settings.tensors,
      patchSize: geometry.patchSize,
      mergeSize: geometry.mergeSize,
    },
  };
  return {
    hash,
    grid,
    tokens: tokenCount(grid, geometry.mergeSize),
    width,
    height,
    tensorJob: {
      ...work,
      file: picture,
      source,
      // A caller may give one name to two files.
      cacheKey: uuid === undefined ? `${hash} ${JSON.stringify(work)}` : undefined,
    },
  };
}

/** The decode options without those of other media, which leave an image's hash alone. */
function ownMediaIo(mediaIo: JsonObject): JsonObject {
  return new Map([...mediaIo].filter(([modality]) => modality === 'image'));
}

function imageMediaIo(mediaIo: JsonObject): JsonObject {
  const image = mediaIo.get('image');
  return image instanceof Map ? image : new Map<string, JsonValue>();
}

function backgroundColor(mediaIo: JsonObject): RgbColor {
  const color: JsonValue = imageMediaIo(mediaIo).get(BACKGROUND) ?? null;
  if (color === null) return WHITE;
  const channels = Array.isArray(color) ? color.map(Number) : [];
  const [red, green, blue] = channels;
  const isColor = channels.every((value) => Number.isInteger(value) && value >= 0 && value <= 255);
  if (
    channels.length !== 3 ||
    !isColor ||
    red === undefined ||
    green === undefined ||
    blue === undefined
  ) {
    throw badRequest(`${BACKGROUND} must be three integers from 0 to 255`, 'media_io_kwargs');
  }
  return [red, green, blue];
}
