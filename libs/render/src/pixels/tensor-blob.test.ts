import { describe, expect, it } from '@jest/globals';
import { decode, ExtData } from '@msgpack/msgpack';
import fc from 'fast-check';

import { blobFrame, type PixelDtype } from './tensor-blob.ts';

/** Bytes around the tensor in hex, and the length of the whole. */
function frameOf(...shape: Parameters<typeof blobFrame>): {
  readonly head: string;
  readonly tail: string;
  readonly byteLength: number;
} {
  const { head, tail, byteLength } = blobFrame(...shape);
  return {
    head: Buffer.from(head).toString('hex'),
    tail: Buffer.from(tail).toString('hex'),
    byteLength,
  };
}

describe('blobFrame', () => {
  it('is written as vLLM writes a bfloat16 image of 200x300 (render.md 14.1)', () => {
    expect(frameOf([1, 20, 14], { patchSize: 16, dtype: 'bfloat16', kwargsLayout: 'map' })).toEqual(
      {
        head: '82ac706978656c5f76616c75657382a46461746193a862666c6f6174313692cd0118cd0600c9000d200003',
        tail: 'a56669656c6492a4666c617483ab6b6565705f6f6e5f637075c2a6736c6963657391919300cd0118c0a364696d00ae696d6167655f677269645f74687782a46461746193a5696e7436349103c71803010000000000000014000000000000000e00000000000000a56669656c6492a76261746368656481ab6b6565705f6f6e5f637075c3',
        byteLength: 860_335,
      },
    );
  });

  it('is written as vLLM writes a small uint8 image (render.md 14.1)', () => {
    const { head, tail, byteLength } = frameOf([1, 6, 4], {
      patchSize: 14,
      dtype: 'uint8',
      kwargsLayout: 'map',
    });
    expect(head).toBe('82ac706978656c5f76616c75657382a46461746193a575696e74389218cd0498c86e4003');
    expect(tail).toContain('a6736c69636573919193' + '00' + '18' + 'c0');
    expect(byteLength).toBe(28_390);
  });

  it('lists the tensors for older workers, with the arguments of their fields in order', () => {
    const { head, tail, byteLength } = blobFrame([1, 2, 2], {
      patchSize: 14,
      dtype: 'uint8',
      kwargsLayout: 'list',
    });
    const tensor = Buffer.alloc(byteLength - head.length - tail.length, 7);
    const grid = new BigInt64Array([1n, 2n, 2n]);
    expect(decode(Buffer.concat([head, tensor, tail]))).toEqual([
      {
        modality: 'image',
        key: 'pixel_values',
        data: ['uint8', [4, 1176], new ExtData(3, new Uint8Array(tensor))],
        field: ['flat', [[[0, 4, null]]], 0],
      },
      {
        modality: 'image',
        key: 'image_grid_thw',
        data: ['int64', [3], new ExtData(3, new Uint8Array(grid.buffer))],
        field: ['batched'],
      },
    ]);
  });

  it('can be read by any msgpack reader', () => {
    const even = fc.integer({ min: 1, max: 12 }).map((half) => half * 2);
    const dtype = fc.constantFrom<PixelDtype>('uint8', 'bfloat16');
    fc.assert(
      fc.property(even, even, fc.constantFrom(14, 16), dtype, (rows, columns, patchSize, type) => {
        const { head, tail, byteLength } = blobFrame([1, rows, columns], {
          patchSize,
          dtype: type,
          kwargsLayout: 'map',
        });
        const tensor = Buffer.alloc(byteLength - head.length - tail.length, 7);
        const bytes = Buffer.concat([head, tensor, tail]);
        const patches = rows * columns;
        const values = 6 * patchSize ** 2;
        const shape = [patches, values];
        const size = patches * values * (type === 'uint8' ? 1 : 2);
        const decoded = JSON.stringify(decode(bytes), (_key, value: unknown) =>
          value instanceof ExtData ? [value.type, summary(value)] : value,
        );
        expect(JSON.parse(decoded)).toEqual({
          pixel_values: {
            data: [type, shape, [3, { size, sum: 7 * size }]],
            field: ['flat', { keep_on_cpu: false, slices: [[[0, patches, null]]], dim: 0 }],
          },
          image_grid_thw: {
            data: ['int64', [3], [3, { size: 24, sum: 1 + rows + columns }]],
            field: ['batched', { keep_on_cpu: true }],
          },
        });
      }),
      { numRuns: 20 },
    );
  });
});

function summary({ data }: ExtData): { readonly size: number; readonly sum: number } {
  if (typeof data === 'function') throw new Error('the decoder gives bytes');
  return { size: data.length, sum: data.reduce((total, byte) => total + byte, 0) };
}
