/** What one encoding gives: ids, and on demand the code point range of each id in the text. */
export interface Encoded {
  readonly ids: Uint32Array;
  readonly offsets: readonly (readonly [number, number])[] | undefined;
}

/** A library that knows tokenizers, with one of them loaded. */
export interface TokenizerEngine {
  /** Rejects with a `RenderError` when it cannot give offsets. */
  encode(text: string, addSpecialTokens: boolean, withOffsets: boolean): Promise<Encoded>;
  /** Text of known ids, special tokens included. */
  decode(ids: number[]): Promise<string>;
  /** The spelling of a known id in the vocabulary. */
  spellings(ids: number[]): Promise<(string | null)[]>;
  /** Ids below it may be known. */
  size(): Promise<number>;
  close(): Promise<void>;
}

/** `auto` takes the native library where it loads, else the one in JavaScript; both give the same ids. */
export type TokenizerChoice = 'auto' | 'native' | 'javascript';
