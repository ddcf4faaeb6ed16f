import { hermesStructure } from '../answer/hermes-structure.ts';
import { type RenderedPrompt } from '../answer/rendered-prompt.ts';
import { samplingParams } from '../answer/sampling-params.ts';
import { badRequest } from '../errors.ts';
import { expandPlaceholders } from '../expand-placeholders.ts';
import { measureImages } from '../image/image-processor.ts';
import { type JsonObject, type JsonValue } from '../json/json-value.ts';
import { type TensorJob } from '../pixels/build-tensor.ts';
import { type TensorPool } from '../pixels/tensor-pool.ts';
import { type Profile } from '../profile.ts';
import { checkLength, encodePrompt } from '../prompt-tokens.ts';
import { fromJson, type Value } from '../python/value.ts';
import { type RenderCaller } from '../render-notes.ts';
import { ChatTemplate } from '../template/chat-template.ts';
import { type ContentFormat } from '../template/content-format.ts';
import { readCommonFields, readRequestedTokens, type CommonFields } from './common-fields.ts';
import { cutAtMark, markFinalMessage } from './continue-final-message.ts';
import { readMessages, type Conversation } from './messages.ts';
import { type RequestFields } from './request-fields.ts';
import { acceptedKwargs, templateKwargs } from './template-variables.ts';
import { readTools, type ToolSettings } from './tools.ts';

/** A chat as tokens, before its length is checked. */
export interface ChatTokens {
  readonly prompt: Pick<
    RenderedPrompt,
    'tokenIds' | 'promptText' | 'images' | 'tokenOffsets' | 'parseContext'
  >;
  readonly tools: ToolSettings;
  /** How to make the tensors of `prompt.images`. */
  readonly tensorJobs: readonly TensorJob[];
}

/** What a rendering may use, and for whom it is. */
export interface RenderResources extends RenderCaller {
  /** Without it there are no tensors. */
  readonly pool?: TensorPool | undefined;
}

/** Renders a chat request: messages, template, tokens, images. Rejects with the signal's reason when it aborts. */
export async function renderChat(
  fields: RequestFields,
  profile: Profile,
  { pool, ...caller }: RenderResources = {},
): Promise<RenderedPrompt> {
  const { maxModelLen } = profile;
  const common = readCommonFields(fields, profile);
  const requestedTokens = readRequestedTokens(
    fields,
    ['max_completion_tokens', 'max_tokens'],
    maxModelLen,
  );
  const { prompt, tools, tensorJobs } = await tokenizeChat(fields, profile, common, {
    ...caller,
    maxTokens: maxModelLen,
  });
  checkLength(prompt.tokenIds, maxModelLen);
  const rendered = {
    ...common.echoed,
    ...prompt,
    samplingParams: samplingParams(fields, {
      defaults: profile.samplingDefaults,
      room: maxModelLen - prompt.tokenIds.length,
      requestedTokens,
      logprobs: readLogprobs(fields),
      isStreaming: common.echoed.stream,
      ...(profile.toolParser === 'hermes' && {
        keepsSpecialTokens: tools.tools !== undefined && tools.choice !== 'none',
        structuralTag: hermesStructure(tools, fields.boolean('parallel_tool_calls') ?? true),
      }),
    }),
  };
  // Tensors come last: what is refused for another reason costs no decoding.
  if (pool === undefined || !rendered.wantsTensors || tensorJobs.length === 0) return rendered;
  const startedAt = performance.now();
  const kwargsData = await pool.build(tensorJobs, caller);
  caller.notes?.spent('image', startedAt);
  return { ...rendered, kwargsData };
}

/** How a chat is tokenized. */
export interface TokenizeLimits extends RenderCaller {
  /** Bounds the text that is tokenized; Infinity for no bound. */
  readonly maxTokens: number;
}

/** The tokens of a chat. */
export async function tokenizeChat(
  fields: RequestFields,
  profile: Profile,
  common: CommonFields,
  { maxTokens, ...caller }: TokenizeLimits,
): Promise<ChatTokens> {
  const tools = readTools(fields, profile.enableAutoToolChoice);
  const mmKwargs = readMmKwargs(fields, profile);
  const kwargs = templateKwargs(fields, profile.defaultChatTemplateKwargs);
  const shownTools =
    tools.choice === 'none' && profile.excludeToolsWhenToolChoiceNone ? undefined : tools.tools;
  const template = requestTemplate(fields, profile) ?? profile.template(shownTools !== undefined);
  const conversation = readMessages(
    fields.has('messages') ? (fields.get('messages') ?? null) : undefined,
    {
      format: contentFormat(template, profile),
      imagePlaceholder: profile.imagePlaceholder,
      knowsDeveloper: /(["'])developer\1/.test(template.source),
    },
  );
  const imageSettings = conversation.images.length > 0 ? profile.images() : undefined;
  const measuredAt = performance.now();
  const images =
    imageSettings === undefined
      ? []
      : await measureImages(conversation.images, imageSettings, mmKwargs, caller.signal);
  if (images.length > 0) caller.notes?.spent('image', measuredAt);
  const renderedAt = performance.now();
  const promptText = renderTemplate(template, conversation, shownTools, kwargs, profile);
  caller.notes?.spent('template', renderedAt);
  const { wantsOffsets, truncation } = common;
  const { ids, offsets } = await encodePrompt(profile.tokenizer, promptText, {
    addSpecialTokens: fields.boolean('add_special_tokens') ?? false,
    withOffsets: wantsOffsets && images.length === 0,
    truncation,
    maxModelLen: maxTokens,
    maxCharactersPerToken: profile.maxCharactersPerToken,
    ...caller,
  });
  refuseSurplus(ids, images.length, profile);
  const expanded =
    imageSettings === undefined
      ? { tokenIds: ids, images: [] }
      : expandPlaceholders(ids, imageSettings.placeholderId, images);
  checkImageTruncation(expanded.tokenIds, images.length > 0, common);
  return {
    prompt: {
      ...expanded,
      promptText,
      tokenOffsets: offsets,
      parseContext: parseContext(fields, tools, kwargs, conversation.toolCallCount),
    },
    tools,
    tensorJobs: images.map(({ tensorJob }) => tensorJob),
  };
}

function contentFormat(template: ChatTemplate, { contentFormat: wanted }: Profile): ContentFormat {
  return wanted === 'auto' || wanted === 'auto-legacy'
    ? template.contentFormat(wanted === 'auto-legacy')
    : wanted;
}

function requestTemplate(fields: RequestFields, profile: Profile): ChatTemplate | undefined {
  const inKwargs = fields.object('chat_template_kwargs')?.get('chat_template');
  const source = fields.text('chat_template') ?? inKwargs ?? undefined;
  if (source === undefined) return undefined;
  if (!profile.trustRequestChatTemplate) {
    throw badRequest(
      'Chat template is passed with request, but --trust-request-chat-template is not set. Refused request with untrusted chat template.',
    );
  }
  if (typeof source !== 'string') throw badRequest('chat_template must be a string');
  return new ChatTemplate(source);
}

function readMmKwargs(
  fields: RequestFields,
  profile: Profile,
): { readonly mediaIo: JsonObject; readonly processor: JsonObject } {
  const read = (name: string): JsonObject => {
    const value = fields.object(name) ?? new Map<string, JsonValue>();
    if (value.size > 0 && !profile.trustRequestMmKwargs) {
      throw badRequest(
        `Per-request ${name} are disabled by default because they can change multimodal preprocessing resource usage. Start the server with --trust-request-mm-kwargs to allow them. (parameter=${name})`,
        name,
      );
    }
    return value;
  };
  return { mediaIo: read('media_io_kwargs'), processor: read('mm_processor_kwargs') };
}

function renderTemplate(
  template: ChatTemplate,
  { messages }: Conversation,
  tools: ToolSettings['tools'],
  kwargs: JsonObject,
  profile: Profile,
): string {
  const variables = new Map<string, Value>(profile.specialTokens);
  variables.set('documents', null);
  for (const [name, value] of acceptedKwargs(kwargs, template.variables)) {
    variables.set(name, fromJson(value));
  }
  variables.set('tools', fromJson(tools ?? null));
  const render = (shown: JsonObject[]): string =>
    template.render(
      variables.set('messages', fromJson(shown)),
      profile.maxModelLen * profile.maxCharactersPerToken,
    );
  if (kwargs.get('continue_final_message') !== true) return render(messages);
  const marked = markFinalMessage(messages);
  return cutAtMark(render(marked.messages), marked.finalText);
}

/** A placeholder that no image stands for was written by a user. */
function refuseSurplus(ids: Uint32Array, images: number, { strictPlaceholderId }: Profile): void {
  if (strictPlaceholderId === undefined) return;
  const count = ids.reduce((sum, id) => (id === strictPlaceholderId ? sum + 1 : sum), 0);
  if (count > images) {
    throw badRequest(`The prompt has ${count} image placeholder(s) for ${images} image(s).`);
  }
}

/** Truncation counts before expansion, so a limit below the expanded length may cut an image. */
function checkImageTruncation(
  ids: Uint32Array,
  hasImages: boolean,
  { truncation }: CommonFields,
): void {
  if (!hasImages || truncation === undefined || ids.length <= truncation.tokens) return;
  throw badRequest(
    `truncate_prompt_tokens=${truncation.tokens} would split or drop an image item of the ${ids.length}-token prompt. Please raise truncate_prompt_tokens. (parameter=truncate_prompt_tokens)`,
    'truncate_prompt_tokens',
  );
}

function readLogprobs(fields: RequestFields): bigint | undefined {
  const top = fields.integer('top_logprobs');
  if (fields.boolean('logprobs') === true) return top ?? 0n;
  if (top !== undefined && top > 0n) {
    throw badRequest(
      'when using `top_logprobs`, `logprobs` must be set to true. (parameter=top_logprobs)',
      'top_logprobs',
    );
  }
  return undefined;
}

function parseContext(
  fields: RequestFields,
  { tools, choice }: ToolSettings,
  kwargs: JsonObject,
  toolCallCount: number,
): JsonObject {
  return new Map<string, JsonValue>([
    ['tools', tools ?? null],
    ['tool_choice', choice],
    ['parallel_tool_calls', fields.boolean('parallel_tool_calls') ?? true],
    ['include_reasoning', fields.boolean('include_reasoning') ?? true],
    ['chat_template_kwargs', kwargs],
    ['history_tool_call_cnt', BigInt(toolCallCount)],
  ]);
}
