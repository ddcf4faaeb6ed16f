import { describe, expect, it } from '@jest/globals';
import { encode, ExtData } from '@msgpack/msgpack';

import { mmMetadata } from '../image/mm-metadata.ts';
import { blobFrame } from '../pixels/tensor-blob.ts';
import { metadataOf } from './metadata-of.ts';

const base64 = (value: unknown): string => Buffer.from(encode(value)).toString('base64');

/** Grid and pixels as servers before the map wrote them. */
function listBlob(rows: number, columns: number): string {
  const grid = new BigInt64Array([1n, BigInt(rows), BigInt(columns)]);
  const tensor = (dtype: string, shape: number[], bytes: Uint8Array): unknown => [
    dtype,
    shape,
    new ExtData(3, bytes),
  ];
  return base64([
    { modality: 'image', key: 'pixel_values', data: tensor('uint8', [1, 1], Buffer.of(7)) },
    {
      modality: 'image',
      key: 'image_grid_thw',
      data: tensor('int64', [3], new Uint8Array(grid.buffer)),
      field: ['batched'],
    },
  ]);
}

describe('metadataOf', () => {
  it('keeps the grid of a blob, in the bytes of vLLM', () => {
    const { head, tail, byteLength } = blobFrame([1, 20, 14], {
      patchSize: 16,
      dtype: 'bfloat16',
      kwargsLayout: 'map',
    });
    const pixels = Buffer.alloc(byteLength - head.length - tail.length, 7);
    const blob = Buffer.concat([head, pixels, tail]).toString('base64');
    expect(metadataOf(blob)).toBe(mmMetadata([1, 20, 14]));
  });

  it('reads the list of older servers', () => {
    expect(metadataOf(listBlob(20, 14))).toBe(mmMetadata([1, 20, 14]));
  });

  it.each([
    { name: 'no msgpack', blob: 'b' },
    { name: 'a blob without a grid', blob: base64({ pixel_values: { data: [] } }) },
    { name: 'an empty list', blob: base64([]) },
    {
      name: 'a grid of another length',
      blob: base64({ image_grid_thw: { data: ['int64', [3], new ExtData(3, Buffer.of(1))] } }),
    },
  ])('says nothing about $name', ({ blob }) => {
    expect(metadataOf(blob)).toBeNull();
  });
});
