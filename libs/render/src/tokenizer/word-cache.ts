import { setImmediate as nextTurn } from 'node:timers/promises';

import { z } from 'zod';

/** Words that are remembered; past it all are forgotten. */
const MAX_WORDS = 65_536;
/** Longer words hardly come again. */
const MAX_WORD_CHARACTERS = 256;
/** New words that are remembered of one text: each costs a call of the library. */
const MAX_LEARNT = 1024;
/** Longer texts are not cut into words. */
const MAX_TEXT_CHARACTERS = 1 << 20;
/** Words that are looked up until other requests get a turn. */
const WORDS_PER_TURN = 4096;

const DELETE = 0x7f;
const BLANK = 0x20;
const NEWLINE = 0x0a;

/** How byte-level tokenizers cut a text into words: those of Qwen and of Llama 3. */
const KNOWN_PATTERNS = new Set(
  ['\\p{N}', '\\p{N}{1,3}'].map(
    (digits) =>
      `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|${digits}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+`,
  ),
);

const tokenizerHead = z.looseObject({
  truncation: z.null(),
  padding: z.null(),
  added_tokens: z.array(
    z.looseObject({
      content: z.string().regex(/^[^ \n]+$/),
      single_word: z.literal(false),
      lstrip: z.literal(false),
      rstrip: z.literal(false),
    }),
  ),
  normalizer: z.looseObject({ type: z.literal('NFC') }).nullable(),
  pre_tokenizer: z.looseObject({
    type: z.literal('Sequence'),
    pretokenizers: z.tuple([
      z.looseObject({
        type: z.literal('Split'),
        pattern: z.strictObject({
          Regex: z.string().refine((pattern) => KNOWN_PATTERNS.has(pattern)),
        }),
        behavior: z.literal('Isolated'),
        invert: z.literal(false),
      }),
      z.looseObject({
        type: z.literal('ByteLevel'),
        add_prefix_space: z.literal(false),
        use_regex: z.literal(false),
      }),
    ]),
  }),
  post_processor: z.looseObject({ type: z.string() }).nullable(),
  model: z.looseObject({ type: z.literal('BPE'), dropout: z.null() }),
});

/** Ids of texts, in the order given. */
export type EncodeTexts = (texts: string[]) => Promise<ArrayLike<number>[]>;

/**
 * Remembers the ids of words, so that a text of known words is tokenized by looking them up. Only for tokenizers whose
 * pattern always ends a token where `wordEnd` cuts, so that the ids of a text are those of its words in a row.
 */
export class WordCache {
  /** True when the tokenizer puts tokens around a text on demand. */
  readonly hasSpecialTokens: boolean;
  private readonly known = new Map<string, readonly number[]>();

  private constructor(hasSpecialTokens: boolean) {
    this.hasSpecialTokens = hasSpecialTokens;
  }

  /** A cache for the tokenizer of a `tokenizer.json`; undefined where words may depend on their surroundings. */
  static for(definition: string): WordCache | undefined {
    const head = readHead(definition);
    return head && new WordCache(head.post_processor?.type !== 'ByteLevel');
  }

  /** Ids of a text without tokens around it; `encode` gives those of words that are not known. */
  async encode(text: string, encode: EncodeTexts): Promise<Uint32Array> {
    if (text.length > MAX_TEXT_CHARACTERS) return join(await encode([text]));
    const words: (readonly number[] | string)[] = [];
    const unknown = new Set<string>();
    for (let start = 0; start < text.length;) {
      const end = wordEnd(text, start);
      const word = text.slice(start, end);
      const ids = this.known.get(word);
      if (ids === undefined) unknown.add(word);
      words.push(ids ?? word);
      start = end;
      if (words.length % WORDS_PER_TURN === 0) await nextTurn();
    }
    if (unknown.size === 0) return join(words as (readonly number[])[]);
    await this.learn(unknown, encode);
    return this.withUnknown(words, encode);
  }

  private async learn(unknown: ReadonlySet<string>, encode: EncodeTexts): Promise<void> {
    const fresh: string[] = [];
    for (const word of unknown) {
      // A copy: a part of a long text would keep all of it.
      if (word.length <= MAX_WORD_CHARACTERS) fresh.push(Buffer.from(word).toString());
      if (fresh.length === MAX_LEARNT) break;
    }
    if (fresh.length === 0) return;
    const ids = await encode(fresh);
    if (this.known.size + fresh.length > MAX_WORDS) this.known.clear();
    for (const [at, word] of fresh.entries()) this.known.set(word, Array.from(ids[at] ?? []));
  }

  /** Ids of words some of which are not known: such words that stand together are tokenized as one text. */
  private async withUnknown(
    words: readonly (readonly number[] | string)[],
    encode: EncodeTexts,
  ): Promise<Uint32Array> {
    const parts: (ArrayLike<number> | undefined)[] = [];
    const texts: string[] = [];
    let text = '';
    const endText = (): void => {
      if (text === '') return;
      texts.push(text);
      parts.push(undefined);
      text = '';
    };
    for (const word of words) {
      const ids = typeof word === 'string' ? this.known.get(word) : word;
      if (ids === undefined) {
        text += word as string;
      } else {
        endText();
        parts.push(ids);
      }
    }
    endText();
    const encoded = texts.length === 0 ? [] : await encode(texts);
    let read = 0;
    return join(parts.map((ids) => ids ?? encoded[read++] ?? []));
  }
}

/** The head of a `tokenizer.json`, which libraries write in this order: all but vocabulary and merges. */
function readHead(definition: string): z.infer<typeof tokenizerHead> | undefined {
  try {
    const head = definition.slice(0, definition.indexOf('"vocab"'));
    return tokenizerHead.safeParse(JSON.parse(`${head}"vocab":{}}}`)).data;
  } catch {
    return undefined;
  }
}

/**
 * Where the word that starts at `start` ends: before a blank behind a visible character, before a line end behind a
 * letter or digit, and between a line end and a letter, all of them ASCII. No token of the known patterns goes across,
 * none looks across, and nothing composes with what is in front of it.
 */
function wordEnd(text: string, start: number): number {
  let before = text.charCodeAt(start);
  for (let at = start + 1; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === BLANK) {
      if (before > BLANK && before < DELETE) return at;
    } else if (code === NEWLINE) {
      if (isLetter(before) || isDigit(before)) return at;
    } else if (before === NEWLINE && isLetter(code)) {
      return at;
    }
    before = code;
  }
  return text.length;
}

function isLetter(code: number): boolean {
  const lower = code | 0x20;
  return lower >= 0x61 && lower <= 0x7a;
}

function isDigit(code: number): boolean {
  return code >= 0x30 && code <= 0x39;
}

function join(parts: readonly ArrayLike<number>[]): Uint32Array {
  let length = 0;
  for (const part of parts) length += part.length;
  const ids = new Uint32Array(length);
  let write = 0;
  for (const part of parts) {
    for (let at = 0; at < part.length; at++) ids[write++] = part[at] ?? 0;
  }
  return ids;
}
