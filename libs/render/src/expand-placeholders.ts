import { badRequest } from './errors.ts';
import { type RenderedImage } from './answer/rendered-prompt.ts';
import { type MeasuredImage } from './image/image-processor.ts';

/**
 * Replaces the i-th placeholder id by as many copies as the i-th image needs. Further placeholders stay single ids:
 * they are text the user wrote.
 */
export function expandPlaceholders(
  ids: Uint32Array,
  placeholderId: number,
  images: readonly MeasuredImage[],
): { readonly tokenIds: Uint32Array; readonly images: RenderedImage[] } {
  const added = images.reduce((sum, { tokens }) => sum + tokens - 1, 0);
  const tokenIds = new Uint32Array(ids.length + added);
  const placed: RenderedImage[] = [];
  let read = 0;
  let write = 0;
  for (const image of images) {
    const at = ids.indexOf(placeholderId, read);
    if (at === -1) {
      throw badRequest(
        `The prompt has ${placed.length} image placeholder(s) for ${images.length} image(s).`,
      );
    }
    tokenIds.set(ids.subarray(read, at), write);
    write += at - read;
    tokenIds.fill(placeholderId, write, write + image.tokens);
    const [frames, rows, columns] = image.grid;
    placed.push({
      hash: image.hash,
      offset: write,
      length: image.tokens,
      gridThw: [frames, rows, columns],
      width: image.width,
      height: image.height,
      byteLength: image.tensorJob.file.length,
    });
    write += image.tokens;
    read = at + 1;
  }
  tokenIds.set(ids.subarray(read), write);
  return { tokenIds, images: placed };
}
