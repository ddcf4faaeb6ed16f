import { type GridThw } from '../image/geometry.ts';
import { gridEntry, TENSOR_EXTENSION } from '../image/mm-metadata.ts';
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

/** A msgpack blob without its tensor. */
export interface BlobFrame {
  /** What stands in front of the raw tensor, and behind it. */
  readonly head: Uint8Array;
  readonly tail: Uint8Array;
  /** Length of the whole blob. */
  readonly byteLength: number;
}

/** The frame of one Qwen-VL image, an item of `features.kwargs_data`. */
export function blobFrame(grid: GridThw, patchSize: number, dtype: PixelDtype): BlobFrame {
  const [frames, rows, columns] = grid;
  const patches = frames * rows * columns;
  const values = valuesPerPatch(patchSize);
  const tensorBytes = patches * values * BYTES_PER_VALUE[dtype];
  const head = Buffer.concat([
    mapHead(2),
    encodeMsgpack('pixel_values'),
    mapHead(2),
    encodeMsgpack('data'),
    arrayHead(3),
    encodeMsgpack(dtype),
    encodeMsgpack([patches, values]),
    extensionHead(TENSOR_EXTENSION, tensorBytes),
  ]);
  const tail = Buffer.concat([
    encodeMsgpack('field'),
    // The slice counts the rows of this image alone, also when a request has several.
    encodeMsgpack(['flat', { keep_on_cpu: false, slices: [[[0, patches, null]]], dim: 0 }]),
    gridEntry(grid),
  ]);
  return { head, tail, byteLength: head.length + tensorBytes + tail.length };
}
