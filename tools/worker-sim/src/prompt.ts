import { createHash, hash } from 'node:crypto';

/** One media item of a prompt as this worker received it. */
export interface PromptImage {
  hash: string;
  /** First placeholder token and how many there are. */
  offset: number;
  length: number;
  gridThw: [number, number, number];
  /** Pixels; known only when the image itself arrived. */
  size: { width: number; height: number } | undefined;
  /** True when this request carries what an encoder needs: the image, or processor output. */
  isEncodable: boolean;
}

/** One prompt after rendering, whatever form it came in. */
export interface Prompt {
  tokenIds: Uint32Array;
  text: string | undefined;
  images: PromptImage[];
}

const bytesOf = (ids: Uint32Array): Uint8Array =>
  new Uint8Array(ids.buffer, ids.byteOffset, ids.byteLength);

/**
 * Names exactly one prompt: ids, media hashes and where they lie. Prefill in the tokens-in form and
 * decode in the chat form agree on it.
 */
export function promptDigest({ tokenIds, images }: Prompt): string {
  const digest = createHash('sha256').update(bytesOf(tokenIds));
  for (const { hash: mediaHash, offset, length } of images) {
    digest.update(`|${mediaHash}@${offset}+${length}`);
  }
  return digest.digest('hex');
}

/**
 * Chain of block hashes over the whole blocks of a prompt (deploy.md 2.8): equal placeholder ids with
 * different images differ, and so do equal ids under another model or cache salt.
 */
export function blockHashes(
  { tokenIds, images }: Prompt,
  { blockSize, salt }: { blockSize: number; salt: string },
): string[] {
  const hashes: string[] = [];
  let previous = salt;
  for (let start = 0; start + blockSize <= tokenIds.length; start += blockSize) {
    const end = start + blockSize;
    const media = images
      .filter(({ offset, length }) => offset < end && offset + length > start)
      .map((image) => image.hash);
    const ids = tokenIds.subarray(start, end).join(',');
    previous = hash('sha1', `${previous}|${ids}|${media.join(',')}`, 'hex');
    hashes.push(previous);
  }
  return hashes;
}
