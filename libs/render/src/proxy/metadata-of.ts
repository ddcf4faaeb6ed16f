import { decode, ExtData } from '@msgpack/msgpack';
import { z } from 'zod';

import { mmMetadata } from '../image/mm-metadata.ts';

const GRID = 'image_grid_thw';
/** Three little-endian numbers of eight bytes. */
const GRID_BYTES = 24;

const gridEntry = z.object({
  data: z.tuple([
    z.literal('int64'),
    z.tuple([z.literal(3)]),
    z.instanceof(ExtData).transform(({ data }) => (typeof data === 'function' ? data(0) : data)),
  ]),
});
/** Tensors by name, or the list of older servers. */
const blobOf = z.union([
  z.object({ [GRID]: gridEntry }).transform((blob) => blob[GRID]),
  z
    .array(z.union([gridEntry.extend({ key: z.literal(GRID) }), z.object({ key: z.string() })]))
    .transform((entries) => entries.find((entry) => 'data' in entry)),
]);

/**
 * The item of `features.mm_metadata` for an item of `features.kwargs_data`, both in base64; null for one without an image
 * grid. Servers before vLLM 0.30 send only the latter.
 */
export function metadataOf(kwargs: string): string | null {
  const values = readBlob(Buffer.from(kwargs, 'base64'))?.data[2];
  if (values?.length !== GRID_BYTES) return null;
  const { buffer, byteOffset, byteLength } = values;
  const view = new DataView(buffer, byteOffset, byteLength);
  const at = (index: number): number => Number(view.getBigInt64(index * 8, true));
  return mmMetadata([at(0), at(1), at(2)]);
}

function readBlob(bytes: Uint8Array): z.infer<typeof gridEntry> | undefined {
  try {
    return blobOf.safeParse(decode(bytes)).data;
  } catch {
    return undefined;
  }
}
