import { type Tokenizer } from 'tokenizers';

import { type Encoded, type TokenizerEngine } from './tokenizer-engine.ts';
import { type WordCache } from './word-cache.ts';

/** The library, or undefined where it has no build for this machine and is not `required`. */
export async function nativeLibrary(
  required: boolean,
): Promise<{ readonly Tokenizer: typeof Tokenizer } | undefined> {
  try {
    return await import('tokenizers');
  } catch (cause) {
    if (required) throw cause;
    return undefined;
  }
}

/** Hugging Face's native library; works on the thread pool, not on the event loop. Known words are looked up. */
export class NativeEngine implements TokenizerEngine {
  private readonly native: Tokenizer;
  private readonly words: WordCache | undefined;

  constructor(native: Tokenizer, words?: WordCache) {
    this.native = native;
    this.words = words;
  }

  async encode(text: string, addSpecialTokens: boolean, withOffsets: boolean): Promise<Encoded> {
    if (this.words && !withOffsets && !(addSpecialTokens && this.words.hasSpecialTokens)) {
      const ids = await this.words.encode(text, (texts) => this.encodeTexts(texts));
      return { ids, offsets: undefined };
    }
    const encoding = await this.native.encode(text, null, { addSpecialTokens });
    return {
      ids: new Uint32Array(encoding.getIds()),
      offsets: withOffsets
        ? encoding.getOffsets().map(([start = 0, end = 0]) => [start, end] as const)
        : undefined,
    };
  }

  private async encodeTexts(texts: string[]): Promise<number[][]> {
    const encodings = await this.native.encodeBatch(texts, { addSpecialTokens: false });
    return encodings.map((encoding) => encoding.getIds());
  }

  async decode(ids: number[]): Promise<string> {
    return this.native.decode(ids, false);
  }

  async spellings(ids: number[]): Promise<(string | null)[]> {
    return Promise.resolve(ids.map((id) => this.native.idToToken(id)));
  }

  async size(): Promise<number> {
    return Promise.resolve(this.native.getVocabSize(true));
  }

  async close(): Promise<void> {
    // Nothing runs.
  }
}
