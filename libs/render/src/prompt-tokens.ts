import { type Truncation } from './chat/common-fields.ts';
import { badRequest } from './errors.ts';
import { type RenderCaller } from './render-notes.ts';
import { type Encoded } from './tokenizer/tokenizer-engine.ts';
import { type Tokenizer } from './tokenizer/tokenizer.ts';

/** How a prompt becomes ids. */
export interface EncodeRequest extends RenderCaller {
  readonly addSpecialTokens: boolean;
  readonly withOffsets: boolean;
  readonly truncation: Truncation | undefined;
  readonly maxModelLen: number;
  /** Longer texts per token of the context are refused before tokenizing. */
  readonly maxCharactersPerToken: number;
}

/** Tokenizes a prompt, after a cheap check of its length and before the exact one. */
export async function encodePrompt(
  tokenizer: Tokenizer,
  text: string,
  request: EncodeRequest,
): Promise<Encoded> {
  const maxCharacters = request.maxModelLen * request.maxCharactersPerToken;
  if (text.length > maxCharacters && request.truncation === undefined) {
    throw tooLong(request.maxModelLen);
  }
  const encoded = await tokenizer.encode(text, request);
  if (request.truncation === undefined || encoded.ids.length <= request.truncation.tokens) {
    return encoded;
  }
  if (!request.addSpecialTokens) return pick(encoded, request.truncation);
  const bare = await tokenizer.encode(text, { ...request, addSpecialTokens: false });
  return pick(encoded, request.truncation, specialTokens(encoded.ids, bare.ids));
}

/** Special tokens that the tokenizer put around a text: they stay when the text is truncated. */
interface SpecialTokens {
  readonly before: number;
  readonly after: number;
}

function specialTokens(ids: Uint32Array, bare: Uint32Array): SpecialTokens {
  const added = ids.length - bare.length;
  for (let before = 0; before < added; before++) {
    const isText = bare.every((id, at) => ids[before + at] === id);
    if (isText) return { before, after: added - before };
  }
  return { before: added, after: 0 };
}

function pick(
  { ids, offsets }: Encoded,
  truncation: Truncation,
  { before, after }: SpecialTokens = { before: 0, after: 0 },
): Encoded {
  const textEnd = ids.length - after;
  const tokens = Math.max(0, truncation.tokens - before - after);
  const isKept = (at: number): boolean =>
    at < before ||
    at >= textEnd ||
    (truncation.keeps === 'first' ? at < before + tokens : at >= textEnd - tokens);
  return {
    ids: ids.filter((_, at) => isKept(at)),
    offsets: offsets?.filter((_, at) => isKept(at)),
  };
}

/** Keeps the part of a prompt of ids that `truncate_prompt_tokens` asks for. */
export function truncateIds(ids: Uint32Array, truncation: Truncation | undefined): Uint32Array {
  return truncation === undefined || ids.length <= truncation.tokens
    ? ids
    : pick({ ids, offsets: undefined }, truncation).ids;
}

/** Throws the 400s for a prompt without tokens or beyond the context. */
export function checkLength(ids: Uint32Array, maxModelLen: number): void {
  if (ids.length === 0) throw badRequest('No token_ids rendered');
  if (ids.length > maxModelLen) throw tooLong(maxModelLen);
}

function tooLong(maxModelLen: number): Error {
  return badRequest(
    `This model's maximum context length is ${maxModelLen} tokens. However, your prompt contains at least ${maxModelLen + 1} input tokens, which exceeds this limit even without any output tokens. Please reduce the length of the input prompt. (parameter=input_tokens, value=${maxModelLen + 1})`,
    'input_tokens',
  );
}
