import { readCommonFields } from './chat/common-fields.ts';
import { tokenizeChat } from './chat/render-chat.ts';
import { type RequestFields } from './chat/request-fields.ts';
import { invalidField } from './errors.ts';
import { type Profile } from './profile.ts';
import { type RenderCaller } from './render-notes.ts';

/** What `/tokenize` answers. */
export interface TokenizedRequest {
  readonly tokenIds: Uint32Array;
  /** Spelling of each id in the vocabulary, null for an unknown one; undefined unless asked for. */
  readonly tokenStrings: readonly (string | null)[] | undefined;
}

/** Tokenizes a prompt or a chat; unlike rendering, without a limit to the context length. */
export async function tokenizeRequest(
  fields: RequestFields,
  profile: Profile,
  caller: RenderCaller = {},
): Promise<TokenizedRequest> {
  const tokenIds = await requestTokens(fields, profile, caller);
  return {
    tokenIds,
    tokenStrings:
      fields.boolean('return_token_strs') === true
        ? await profile.tokenizer.spellings(tokenIds)
        : undefined,
  };
}

async function requestTokens(
  fields: RequestFields,
  profile: Profile,
  caller: RenderCaller,
): Promise<Uint32Array> {
  const common = readCommonFields(fields, profile);
  if (fields.has('messages')) {
    const limits = { maxTokens: Infinity, ...caller };
    return (await tokenizeChat(fields, profile, common, limits)).prompt.tokenIds;
  }
  const prompt = fields.text('prompt');
  if (prompt === undefined) throw invalidField('body.prompt', 'Field required');
  const encoded = await profile.tokenizer.encode(prompt, {
    addSpecialTokens: fields.boolean('add_special_tokens') ?? true,
    ...caller,
  });
  return encoded.ids;
}

/** Text of the ids in `tokens`. */
export async function detokenizeRequest(fields: RequestFields, profile: Profile): Promise<string> {
  readCommonFields(fields, profile);
  const tokens = fields.integers('tokens');
  if (tokens === undefined) throw invalidField('body.tokens', 'Field required');
  const ids = tokens.map((id, at) => {
    if (id < 0n) {
      throw invalidField(`body.tokens.${at}`, 'Input should be greater than or equal to 0');
    }
    return Number(id);
  });
  return profile.tokenizer.decode(ids);
}
