import { type GridThw } from './geometry.ts';
import { arrayHead, encodeMsgpack, extensionHead, mapHead } from './msgpack.ts';

/** msgpack extension type of raw tensor bytes. */
export const TENSOR_EXTENSION = 3;

/** The base64 blob of `features.mm_metadata` for one Qwen-VL image: its grid and nothing else. */
export function mmMetadata(grid: GridThw): string {
  return Buffer.concat([mapHead(1), gridEntry(grid)]).toString('base64');
}

/** Key and value of an image's grid in a msgpack map of its tensors. */
export function gridEntry(grid: GridThw): Buffer {
  return Buffer.concat([
    encodeMsgpack('image_grid_thw'),
    mapHead(2),
    encodeMsgpack('data'),
    gridTensor(grid),
    encodeMsgpack('field'),
    encodeMsgpack(['batched', { keep_on_cpu: true }]),
  ]);
}

/** An image's grid as a tensor in msgpack. */
export function gridTensor(grid: GridThw): Buffer {
  const values = Buffer.alloc(8 * grid.length);
  grid.forEach((value, at) => values.writeBigInt64LE(BigInt(value), at * 8));
  return Buffer.concat([
    arrayHead(3),
    encodeMsgpack('int64'),
    encodeMsgpack([grid.length]),
    extensionHead(TENSOR_EXTENSION, values.length),
    values,
  ]);
}
