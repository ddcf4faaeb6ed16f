import { type RenderedPrompt } from '../answer/rendered-prompt.ts';
import { samplingParams } from '../answer/sampling-params.ts';
import { readCommonFields, readRequestedTokens } from '../chat/common-fields.ts';
import { type RequestFields } from '../chat/request-fields.ts';
import { badRequest, invalidField, notImplemented } from '../errors.ts';
import { type JsonValue } from '../json/json-value.ts';
import { type Profile } from '../profile.ts';
import { checkLength, encodePrompt, truncateIds } from '../prompt-tokens.ts';
import { type RenderCaller } from '../render-notes.ts';

/** OpenAI's default for completions; chat has none. */
const DEFAULT_MAX_TOKENS = 16n;
/** Prompts of one request. */
const MAX_PROMPTS = 1024;
const MAX_TOKEN_ID = 0xffff_ffffn;
const LOCATION = 'body.prompt';

type Prompt = string | Uint32Array;

/** Renders a completions request; one bad prompt of a list fails the whole request. */
export async function renderCompletions(
  fields: RequestFields,
  profile: Profile,
  caller: RenderCaller = {},
): Promise<RenderedPrompt[]> {
  const { maxModelLen } = profile;
  const common = readCommonFields(fields, profile);
  if (fields.get('prompt_embeds') !== undefined) {
    throw notImplemented('prompt_embeds', 'prompt_embeds');
  }
  if (fields.get('suffix') !== undefined) {
    throw badRequest('suffix is only supported for models with FIM completion rendering', 'suffix');
  }
  const prompts = readPrompts(fields.get('prompt'));
  const requestedTokens =
    readRequestedTokens(fields, ['max_tokens'], maxModelLen) ?? DEFAULT_MAX_TOKENS;
  const { wantsOffsets, truncation } = common;
  const encodeRequest = {
    addSpecialTokens: fields.boolean('add_special_tokens') ?? true,
    withOffsets: wantsOffsets,
    truncation,
    maxModelLen,
    maxCharactersPerToken: profile.maxCharactersPerToken,
    ...caller,
  };
  const rendered: RenderedPrompt[] = [];
  for (const prompt of prompts) {
    caller.signal?.throwIfAborted();
    const { ids, offsets } =
      typeof prompt === 'string'
        ? await encodePrompt(profile.tokenizer, prompt, encodeRequest)
        : { ids: truncateIds(prompt, truncation), offsets: undefined };
    checkLength(ids, maxModelLen);
    rendered.push({
      ...common.echoed,
      tokenIds: ids,
      promptText: typeof prompt === 'string' ? prompt : undefined,
      images: [],
      tokenOffsets: offsets,
      samplingParams: samplingParams(fields, {
        defaults: profile.samplingDefaults,
        room: maxModelLen - ids.length,
        requestedTokens,
        logprobs: fields.integer('logprobs'),
        isStreaming: common.echoed.stream,
      }),
      parseContext: null,
    });
  }
  return rendered;
}

function readPrompts(value: JsonValue | undefined): Prompt[] {
  if (value === undefined || value === '') {
    throw badRequest(
      'Either prompt or prompt_embeds must be provided and non-empty. (parameter=prompt)',
      'prompt',
    );
  }
  if (typeof value === 'string') return [value];
  if (!Array.isArray(value)) throw invalidField(LOCATION, 'Input should be a valid list');
  if (value.length === 0) {
    throw badRequest('You must pass at least one prompt (parameter=prompt)', 'prompt');
  }
  if (value.every((item) => typeof item === 'string')) return checkCount(value);
  if (value.every((item) => Array.isArray(item))) {
    return checkCount(value).map((ids, at) => readIds(ids, `${LOCATION}.${at}`));
  }
  return [readIds(value, LOCATION)];
}

function checkCount<T>(prompts: T[]): T[] {
  if (prompts.length > MAX_PROMPTS) {
    throw badRequest(`At most ${MAX_PROMPTS} prompts may be rendered at once.`, 'prompt');
  }
  return prompts;
}

function readIds(value: readonly JsonValue[], location: string): Uint32Array {
  return Uint32Array.from(value, (id, at) => {
    if (typeof id !== 'bigint' || id > MAX_TOKEN_ID) {
      throw invalidField(`${location}.${at}`, 'Input should be a valid integer');
    }
    if (id < 0n) {
      throw invalidField(`${location}.${at}`, 'Input should be greater than or equal to 0');
    }
    return Number(id);
  });
}
