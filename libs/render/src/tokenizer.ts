import { Tokenizer as NativeTokenizer } from 'tokenizers';

import { type EncodeGate } from './encode-gate.ts';
import { badRequest } from './errors.ts';

/** Shorter texts take about a millisecond and do not wait for long ones. */
const SHORT_TEXT_CHARACTERS = 8192;
const LONE_SURROGATE = /\p{Surrogate}/u;

/** What one encoding gives: ids, and on demand the code point range of each id in the text. */
export interface Encoded {
  readonly ids: Uint32Array;
  readonly offsets: readonly (readonly [number, number])[] | undefined;
}

/** The tokenizer of a profile. Encoding runs in native code on the thread pool, not on the event loop. */
export class Tokenizer {
  private readonly native: NativeTokenizer;
  private readonly gate: EncodeGate;
  private vocabularySize: number | undefined;

  private constructor(native: NativeTokenizer, gate: EncodeGate) {
    this.native = native;
    this.gate = gate;
  }

  /** Reads a `tokenizer.json`; throws the library's error when the file is not one. */
  static fromFile(file: string, gate: EncodeGate): Tokenizer {
    return new Tokenizer(NativeTokenizer.fromFile(file), gate);
  }

  /** Takes the text of a `tokenizer.json`; throws the library's error when it is not one. */
  static fromText(definition: string, gate: EncodeGate): Tokenizer {
    return new Tokenizer(NativeTokenizer.fromString(definition), gate);
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
    const encode = () =>
      this.native.encode(text, null, { addSpecialTokens: options.addSpecialTokens });
    const encoding = await (text.length <= SHORT_TEXT_CHARACTERS
      ? encode()
      : this.gate.run(encode, options.signal));
    return {
      ids: Uint32Array.from(encoding.getIds()),
      offsets:
        options.withOffsets === true
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
