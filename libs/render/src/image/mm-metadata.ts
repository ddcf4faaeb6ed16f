import { type GridThw } from './geometry.ts';

/** msgpack of `{"image_grid_thw": {"data": ["int64", [3], ext(3, 24 bytes)], "field": ["batched", {"keep_on_cpu": true}]}}`. */
const PREFIX = Buffer.from(
  '81ae696d6167655f677269645f74687782a46461746193a5696e7436349103c71803',
  'hex',
);
const SUFFIX = Buffer.from('a56669656c6492a76261746368656481ab6b6565705f6f6e5f637075c3', 'hex');

/** The base64 blob of `features.mm_metadata` for one Qwen-VL image: its grid and nothing else. */
export function mmMetadata(grid: GridThw): string {
  const values = Buffer.alloc(24);
  grid.forEach((value, at) => values.writeBigInt64LE(BigInt(value), at * 8));
  return Buffer.concat([PREFIX, values, SUFFIX]).toString('base64');
}
