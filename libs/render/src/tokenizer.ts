import { Tokenizer as NativeTokenizer } from 'tokenizers';

import { type EncodeGate } from './encode-gate.ts';
import { badRequest } from './errors.ts';
import { type RenderCache } from './render-cache.ts';

/** Shorter texts take about a millisecond and do not wait for long ones. */
const SHORT_TEXT_CHARACTERS = 8192;
const LONE_SURROGATE = /\p{Surrogate}/u;

/** What one encoding gives: ids, and on demand the code point range of each id in the text. */
export interface Encoded {
  readonly ids: Uint32Array;
  readonly offsets: readonly (readonly [number, number])[] | undefined;
}

/** Where long texts wait, and known ones are remembered. */
export interface TokenizerWorkers {
  readonly gate: EncodeGate;
  readonly cache: RenderCache;
}

/** Tells tokenizers apart in the cache that they share. */
let tokenizers = 0;

/** The tokenizer of a profile. Encoding runs in native code on the thread pool, not on the event loop. */
export class Tokenizer {
  private readonly native: NativeTokenizer;
  private readonly workers: TokenizerWorkers;
  private readonly scope = `${++tokenizers}`;
  private vocabularySize: number | undefined;

  private constructor(native: NativeTokenizer, workers: TokenizerWorkers) {
    this.native = native;
    this.workers = workers;
  }

  /** Reads a `tokenizer.json`; throws the library's error when the file is not one. */
  static fromFile(file: string, workers: TokenizerWorkers): Tokenizer {
    return new Tokenizer(NativeTokenizer.fromFile(file), workers);
  }

  /** Takes the text of a `tokenizer.json`; throws the library's error when it is not one. */
  static fromText(definition: string, workers: TokenizerWorkers): Tokenizer {
    return new Tokenizer(NativeTokenizer.fromString(definition), workers);
  }

  /** Ids of a text. A lone surrogate has no bytes to tokenize and is refused, as upstream does. */
  async encode(
    text: string,
    options: {
      readonly addSpecialTokens: boolean;
      readonly withOffsets?: boolean;
      /** A text that waits for its turn is dropped when it aborts. */
      readonly signal?: AbortSignal | undefined;
    },
  ): Promise<Encoded> {
    if (LONE_SURROGATE.test(text)) {
      throw badRequest('the text holds a lone surrogate, which has no UTF-8 form');
    }
    if (text === '' && !options.addSpecialTokens) {
      return { ids: new Uint32Array(), offsets: options.withOffsets === true ? [] : undefined };
    }
    const { addSpecialTokens, withOffsets = false, signal } = options;
    const scope = `${this.scope} ${addSpecialTokens} ${withOffsets}`;
    return this.workers.cache.encoded(scope, text, () =>
      text.length <= SHORT_TEXT_CHARACTERS
        ? this.encodeNow(text, addSpecialTokens, withOffsets)
        : this.workers.gate.run(() => this.encodeNow(text, addSpecialTokens, withOffsets), signal),
    );
  }

  private async encodeNow(
    text: string,
    addSpecialTokens: boolean,
    withOffsets: boolean,
  ): Promise<Encoded> {
    const encoding = await this.native.encode(text, null, { addSpecialTokens });
    return {
      ids: new Uint32Array(encoding.getIds()),
      offsets: withOffsets
        ? encoding.getOffsets().map(([start = 0, end = 0]) => [start, end] as const)
        : undefined,
    };
  }

  /** Text of ids, special tokens included; unknown ids give nothing. */
  async decode(ids: Iterable<number>): Promise<string> {
    const known = Array.from(ids).filter((id) => id < this.size());
    return known.length === 0 ? '' : this.native.decode(known, false);
  }

  /** The id of a token, or undefined when the vocabulary has none of that spelling. */
  idOf(token: string): number | undefined {
    return this.native.tokenToId(token) ?? undefined;
  }

  /** The spelling of each id in the vocabulary, null for unknown ids. */
  spellings(ids: Iterable<number>): (string | null)[] {
    return Array.from(ids, (id) => (id < this.size() ? this.native.idToToken(id) : null));
  }

  private size(): number {
    this.vocabularySize ??= this.native.getVocabSize(true);
    return this.vocabularySize;
  }
}
