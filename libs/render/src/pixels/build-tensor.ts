import { type GridThw } from '../image/geometry.ts';
import { type ImageSource } from '../image/image-header.ts';
import { Base64Text } from './base64-text.ts';
import { decodeImage } from './decode-image.ts';
import { normalisedPatches, type Normalisation } from './normalise.ts';
import { patchify, valuesPerPatch, type PatchLayout } from './patchify.ts';
import { resize, type ResizeWeights } from './resize.ts';
import { releasePixels, type RgbColor } from './rgb-image.ts';
import { blobFrame, type BlobSettings } from './tensor-blob.ts';

/** How a model's processor turns pixels into tensors. */
export interface TensorSettings extends PatchLayout, BlobSettings {
  readonly normalisation: Normalisation;
  readonly resizeWeights: ResizeWeights;
}

/** All that the tensor of one image depends on. */
export interface TensorJob {
  readonly file: Uint8Array;
  /** What the file's header says; read again when it is left out. */
  readonly source?: ImageSource | undefined;
  /** Covers everything else here; undefined for an image whose bytes its hash does not cover. */
  readonly cacheKey?: string | undefined;
  readonly grid: GridThw;
  /** Pixels of the file, before it is resized. */
  readonly pixels: number;
  /** Colour behind transparent pixels. */
  readonly background: RgbColor;
  readonly settings: TensorSettings;
}

/**
 * The msgpack blob with an image's `pixel_values` and grid, in base64, as ASCII bytes; in `spare` where it has room. Rejects
 * like `decodeImage`.
 */
export async function buildTensor(
  { file, source, grid, background, settings }: TensorJob,
  spare?: ArrayBuffer,
): Promise<Uint8Array<ArrayBuffer>> {
  const { patchSize, dtype, normalisation, resizeWeights } = settings;
  const [, rows, columns] = grid;
  const decoded = await decodeImage(asBuffer(file), background, source);
  const image = resize(decoded, columns * patchSize, rows * patchSize, resizeWeights);
  if (image !== decoded) releasePixels(decoded.data);
  const { head, tail, byteLength } = blobFrame(grid, settings);
  const text = new Base64Text(byteLength, spare);
  text.append(head);
  if (dtype === 'uint8') {
    patchify(image, settings, (patch) => {
      text.append(patch);
    });
  } else {
    const normalised = normalisedPatches(normalisation, dtype, valuesPerPatch(patchSize));
    patchify(image, settings, (patch) => {
      text.append(normalised(patch));
    });
  }
  releasePixels(image.data);
  text.append(tail);
  return text.end();
}

function asBuffer({ buffer, byteOffset, byteLength }: Uint8Array): Buffer {
  return Buffer.from(buffer, byteOffset, byteLength);
}
