import { createHash } from 'node:crypto';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { type Prompt, promptDigest } from './prompt.ts';

/** Whole blocks that ExampleConnector moves: all but what holds the last token (engine-verified.md 5). */
export const sharedBlocks = (tokens: number, blockSize: number): number =>
  Math.max(0, Math.floor((tokens - 2) / blockSize));

/** One folder of markers that all pods of a stack mount: what the connectors write as tensors. */
export class SharedStorage {
  readonly #folder: string;

  constructor(folder: string) {
    this.#folder = folder;
  }

  /** Notes that a pod stored the whole blocks of this prompt. Shorter prompts leave nothing. */
  async storeKv(prompt: Prompt, blockSize: number, pod: string): Promise<void> {
    const blocks = sharedBlocks(prompt.tokenIds.length, blockSize);
    if (blocks > 0) await this.#write(kvKey(prompt, blocks * blockSize), pod);
  }

  /** The pod that stored exactly the whole blocks of this prompt; undefined when nobody did. */
  async findKv(prompt: Prompt, blockSize: number): Promise<string | undefined> {
    const blocks = sharedBlocks(prompt.tokenIds.length, blockSize);
    return blocks === 0 ? undefined : this.#read(kvKey(prompt, blocks * blockSize));
  }

  /** Notes that a pod stored the embedding of a media item. */
  storeEmbedding(hash: string, pod: string): Promise<void> {
    return this.#write(embeddingKey(hash), pod);
  }

  /** The pod that stored this embedding; undefined when nobody did. */
  findEmbedding(hash: string): Promise<string | undefined> {
    return this.#read(embeddingKey(hash));
  }

  async #write(key: string, pod: string): Promise<void> {
    const file = join(this.#folder, key);
    await mkdir(dirname(file), { recursive: true });
    await writeFile(file, pod);
  }

  async #read(key: string): Promise<string | undefined> {
    try {
      return await readFile(join(this.#folder, key), 'utf8');
    } catch {
      return undefined;
    }
  }
}

/** The hash comes from a client, so it never becomes a path by itself. */
const embeddingKey = (hash: string): string =>
  join('ec', createHash('sha256').update(hash).digest('hex'));

function kvKey({ tokenIds, images }: Prompt, tokens: number): string {
  const whole: Prompt = {
    tokenIds: tokenIds.subarray(0, tokens),
    text: undefined,
    images: images.filter(({ offset }) => offset < tokens),
  };
  return join('kv', promptDigest(whole));
}
