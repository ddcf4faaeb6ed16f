import { type Tokenizer } from 'tokenizers';

import { type Encoded, type TokenizerEngine } from './tokenizer-engine.ts';

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

/** Hugging Face's native library; works on the thread pool, not on the event loop. */
export class NativeEngine implements TokenizerEngine {
  private readonly native: Tokenizer;

  constructor(native: Tokenizer) {
    this.native = native;
  }

  async encode(text: string, addSpecialTokens: boolean, withOffsets: boolean): Promise<Encoded> {
    const encoding = await this.native.encode(text, null, { addSpecialTokens });
    return {
      ids: new Uint32Array(encoding.getIds()),
      offsets: withOffsets
        ? encoding.getOffsets().map(([start = 0, end = 0]) => [start, end] as const)
        : undefined,
    };
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
