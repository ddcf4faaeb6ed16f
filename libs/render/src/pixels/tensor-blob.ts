import { type GridThw } from '../image/geometry.ts';
import { gridEntry, gridTensor, TENSOR_EXTENSION } from '../image/mm-metadata.ts';
import { arrayHead, encodeMsgpack, extensionHead, mapHead } from '../image/msgpack.ts';
import { valuesPerPatch } from './patchify.ts';

/** Element type of `pixel_values`: bytes as decoded, or normalised values of the model's own type. */
export type PixelDtype = (typeof PIXEL_DTYPES)[number];

export const PIXEL_DTYPES = ['uint8', 'bfloat16', 'float16', 'float32'] as const;

/** Length of an element. */
export const BYTES_PER_VALUE: Readonly<Record<PixelDtype, number>> = {
  uint8: 1,
  bfloat16: 2,
  float16: 2,
  float32: 4,
};

/** How the tensors of an image are laid out: by name, or in a list as workers before about vLLM 0.15 read them. */
export type KwargsLayout = (typeof KWARGS_LAYOUTS)[number];

export const KWARGS_LAYOUTS = ['map', 'list'] as const;

/** A msgpack blob without its tensor. */
export interface BlobFrame {
  /** What stands in front of the raw tensor, and behind it. */
  readonly head: Uint8Array;
  readonly tail: Uint8Array;
  /** Length of the whole blob. */
  readonly byteLength: number;
}

/** What a blob's form depends on. */
export interface BlobSettings {
  readonly patchSize: number;
  readonly dtype: PixelDtype;
  readonly kwargsLayout: KwargsLayout;
}

/** The frame of one Qwen-VL image, an item of `features.kwargs_data`. */
export function blobFrame(
  grid: GridThw,
  { patchSize, dtype, kwargsLayout }: BlobSettings,
): BlobFrame {
  const [frames, rows, columns] = grid;
  const patches = frames * rows * columns;
  const values = valuesPerPatch(patchSize);
  const tensorBytes = patches * values * BYTES_PER_VALUE[dtype];
  // The slice counts the rows of this image alone, also when a request has several.
  const slices = [[[0, patches, null]]];
  const isMap = kwargsLayout === 'map';
  const head = Buffer.concat([
    isMap ? mapHead(2) : arrayHead(2),
    isMap
      ? Buffer.concat([encodeMsgpack('pixel_values'), mapHead(2), encodeMsgpack('data')])
      : elementHead('pixel_values'),
    arrayHead(3),
    encodeMsgpack(dtype),
    encodeMsgpack([patches, values]),
    extensionHead(TENSOR_EXTENSION, tensorBytes),
  ]);
  const tail = Buffer.concat([
    encodeMsgpack('field'),
    encodeMsgpack(isMap ? ['flat', { keep_on_cpu: false, slices, dim: 0 }] : ['flat', slices, 0]),
    isMap ? gridEntry(grid) : gridElement(grid),
  ]);
  return { head, tail, byteLength: head.length + tensorBytes + tail.length };
}

function gridElement(grid: GridThw): Buffer {
  return Buffer.concat([
    elementHead('image_grid_thw'),
    gridTensor(grid),
    encodeMsgpack('field'),
    encodeMsgpack(['batched']),
  ]);
}

/** What stands in front of a tensor in the list. */
function elementHead(key: string): Buffer {
  return Buffer.concat([
    mapHead(4),
    encodeMsgpack('modality'),
    encodeMsgpack('image'),
    encodeMsgpack('key'),
    encodeMsgpack(key),
    encodeMsgpack('data'),
  ]);
}
