import { type GridThw } from '../image/geometry.ts';
import { decodeImage } from './decode-image.ts';
import { writeBfloat16, type Normalisation } from './normalise.ts';
import { patchify, valuesPerPatch, type PatchLayout } from './patchify.ts';
import { resize, type ResizeWeights } from './resize.ts';
import { type RgbColor } from './rgb-image.ts';
import { tensorBlob, type PixelDtype } from './tensor-blob.ts';

/** How a model's processor turns pixels into tensors. */
export interface TensorSettings extends PatchLayout {
  readonly dtype: PixelDtype;
  readonly normalisation: Normalisation;
  readonly resizeWeights: ResizeWeights;
}

/** All that the tensor of one image depends on. */
export interface TensorJob {
  readonly file: Uint8Array;
  /** Covers everything else here; undefined for an image whose bytes its hash does not cover. */
  readonly cacheKey?: string | undefined;
  readonly grid: GridThw;
  /** Colour behind transparent pixels. */
  readonly background: RgbColor;
  readonly settings: TensorSettings;
}

/** Base64 text is made in pieces of this many bytes, a multiple of 3. */
const BASE64_PIECE_BYTES = 3 << 20;

/** The msgpack blob with an image's `pixel_values` and grid, in base64, as ASCII bytes. Rejects like `decodeImage`. */
export async function buildTensor({
  file,
  grid,
  background,
  settings,
}: TensorJob): Promise<Uint8Array<ArrayBuffer>> {
  const { patchSize, dtype, normalisation, resizeWeights } = settings;
  const [, rows, columns] = grid;
  const decoded = await decodeImage(asBuffer(file), background);
  const image = resize(decoded, columns * patchSize, rows * patchSize, resizeWeights);
  const { bytes, tensor } = tensorBlob(grid, patchSize, dtype);
  if (dtype === 'uint8') {
    patchify(image, settings, tensor);
  } else {
    const patches = new Uint8Array(tensor.length / 2);
    patchify(image, settings, patches);
    writeBfloat16(patches, valuesPerPatch(patchSize), normalisation, tensor);
  }
  return base64(bytes);
}

/** Length of the base64 text of so many bytes. */
export function base64Length(byteLength: number): number {
  return Math.ceil(byteLength / 3) * 4;
}

function base64(bytes: Buffer): Uint8Array<ArrayBuffer> {
  const text = Buffer.from(new ArrayBuffer(base64Length(bytes.length)));
  let write = 0;
  for (let read = 0; read < bytes.length; read += BASE64_PIECE_BYTES) {
    const piece = bytes.toString('base64', read, Math.min(read + BASE64_PIECE_BYTES, bytes.length));
    write += text.write(piece, write, 'latin1');
  }
  return text;
}

function asBuffer({ buffer, byteOffset, byteLength }: Uint8Array): Buffer {
  return Buffer.from(buffer, byteOffset, byteLength);
}
