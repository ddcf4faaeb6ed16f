import { type GridThw } from '../image/geometry.ts';
import { gridEntry, TENSOR_EXTENSION } from '../image/mm-metadata.ts';
import { arrayHead, encodeMsgpack, extensionHead, mapHead } from '../image/msgpack.ts';
import { valuesPerPatch } from './patchify.ts';

/** Element type of `pixel_values`: bytes as decoded, or normalised bfloat16 values. */
export type PixelDtype = 'uint8' | 'bfloat16';

const BYTES_PER_VALUE: Readonly<Record<PixelDtype, number>> = { uint8: 1, bfloat16: 2 };

/** A msgpack blob whose tensor is still to be written. */
export interface TensorBlob {
  readonly bytes: Buffer;
  /** The part of `bytes` that takes the raw tensor. */
  readonly tensor: Uint8Array;
}

/** The blob of one Qwen-VL image, an item of `features.kwargs_data`; `tensor` is zeros. */
export function tensorBlob(grid: GridThw, patchSize: number, dtype: PixelDtype): TensorBlob {
  const { head, tail, tensorBytes } = frame(grid, patchSize, dtype);
  const bytes = Buffer.alloc(head.length + tensorBytes + tail.length);
  head.copy(bytes);
  tail.copy(bytes, head.length + tensorBytes);
  return { bytes, tensor: bytes.subarray(head.length, head.length + tensorBytes) };
}

/** Length of such a blob. */
export function blobBytes(grid: GridThw, patchSize: number, dtype: PixelDtype): number {
  const { head, tail, tensorBytes } = frame(grid, patchSize, dtype);
  return head.length + tensorBytes + tail.length;
}

/** What stands around the raw tensor, and the length of that. */
function frame(
  grid: GridThw,
  patchSize: number,
  dtype: PixelDtype,
): { readonly head: Buffer; readonly tail: Buffer; readonly tensorBytes: number } {
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
  return { head, tail, tensorBytes };
}
