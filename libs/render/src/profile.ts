import { readFile } from 'node:fs/promises';
import { basename } from 'node:path';
import { fileURLToPath } from 'node:url';

import { type SamplingDefaults } from './answer/sampling-params.ts';
import { badRequest, notImplemented } from './errors.ts';
import { type ImageGeometry } from './image/geometry.ts';
import { type ImageSettings } from './image/image-processor.ts';
import { type HashAlgorithm, type HashScheme } from './image/mm-hash.ts';
import { type JsonObject, type JsonValue } from './json/json-value.ts';
import { type KwargsLayout, type PixelDtype } from './pixels/tensor-blob.ts';
import { readProfileFiles, type ProfileFiles } from './profile-files.ts';
import { fromJson, type Value } from './python/value.ts';
import { ChatTemplate } from './template/chat-template.ts';
import { type ContentFormat } from './template/content-format.ts';
import { rebuildLlamaTokenizer } from './tokenizer/llama-tokenizer.ts';
import { type TokenizerChoice } from './tokenizer/tokenizer-engine.ts';
import { type BosPolicy, Tokenizer, type TokenizerWorkers } from './tokenizer/tokenizer.ts';

/** Beside `src` and `dist` alike. */
const DEFAULT_DIRECTORY = fileURLToPath(new URL('../profiles/qwen3-vl', import.meta.url));
/** Real text has far fewer. */
const DEFAULT_CHARACTERS_PER_TOKEN = 16;
const DEFAULT_MAX_IMAGES = 32;
const DEFAULT_MAX_IMAGE_PIXELS = 50_000_000;
/** The geometry rules of this package hold for these. */
const IMAGE_MODEL_TYPES = new Set([
  'qwen2_vl',
  'qwen2_5_vl',
  'qwen3_vl',
  'qwen3_vl_moe',
  'qwen3_5',
  'qwen3_5_moe',
]);
const IMAGE_PLACEHOLDER = '<|vision_start|><|image_pad|><|vision_end|>';
const CLIP_MEAN = [0.48145466, 0.4578275, 0.40821073] as const;
const CLIP_STD = [0.26862954, 0.26130258, 0.27577711] as const;
const SPECIAL_TOKENS = [
  'bos_token',
  'eos_token',
  'pad_token',
  'unk_token',
  'sep_token',
  'cls_token',
  'mask_token',
];

/** Tool parsers whose changes to `sampling_params` are known. */
export type ToolParser = 'hermes';

/** Where a profile comes from, and what overrides its files. */
export interface ProfileOptions {
  /** Directory of the model's files; the shipped Qwen3-VL profile when it is left out. */
  readonly directory?: string;
  /** Names requests may use; replaces the profile's own. */
  readonly servedModelNames?: readonly string[];
  /** Library that tokenizes; default `auto`. */
  readonly tokenizer?: TokenizerChoice;
  /** Whether texts with special tokens start with the one of the beginning; default `auto`, as the tokenizer has it. */
  readonly bos?: BosPolicy;
  /** Name that enters image hashes: the workers' model argument, not an alias. */
  readonly hashModelId?: string;
  readonly hashAlgorithm?: HashAlgorithm;
  readonly hashScheme?: HashScheme;
  readonly contentFormat?: 'auto' | 'auto-legacy' | ContentFormat;
  /** Context length in tokens. */
  readonly maxModelLen?: number;
  /** Characters per token of the context from which a prompt is refused unread, and a template stopped; default 16. */
  readonly maxCharactersPerToken?: number;
  /** Images per request. */
  readonly maxImages?: number;
  /** Pixels per image. */
  readonly maxImagePixels?: number;
  /** Element type of image tensors; must be what the workers read. Default uint8. */
  readonly pixelDtype?: PixelDtype;
  /** How image tensors are laid out; must be what the workers read. Default map. */
  readonly kwargsLayout?: KwargsLayout;
  /** Refuse prompts with more image placeholders than images, which are text of a user. Default false, as upstream. */
  readonly strictPlaceholders?: boolean;
  /** Accept `tool_choice` other than `none`; the workers then need a tool parser. Default true. */
  readonly enableAutoToolChoice?: boolean;
  /** The workers' tool parser, where it changes `sampling_params` of requests with tools. */
  readonly toolParser?: ToolParser;
  /** Leave the tools out of the prompt when `tool_choice` is `none`. Default false. */
  readonly excludeToolsWhenToolChoiceNone?: boolean;
  /** Accept a `chat_template` in requests. Default false. */
  readonly trustRequestChatTemplate?: boolean;
  /** Accept `mm_processor_kwargs` and `media_io_kwargs` in requests. Default false. */
  readonly trustRequestMmKwargs?: boolean;
  /** Template kwargs under those of a request. */
  readonly defaultChatTemplateKwargs?: JsonObject;
}

/** A loaded model: everything that rendering reads, nothing that changes. */
export interface Profile {
  readonly modelIds: readonly string[];
  /** Name of the model as its workers know it. */
  readonly rootName: string;
  readonly maxModelLen: number;
  /** Longer prompts are refused before they are tokenized, and templates that print more are stopped. */
  readonly maxCharactersPerToken: number;
  readonly tokenizer: Tokenizer;
  readonly contentFormat: 'auto' | 'auto-legacy' | ContentFormat;
  readonly imagePlaceholder: string;
  /** Placeholder that must stand for an image each time; undefined where users may write it. */
  readonly strictPlaceholderId: number | undefined;
  readonly specialTokens: ReadonlyMap<string, Value>;
  readonly samplingDefaults: SamplingDefaults;
  readonly enableAutoToolChoice: boolean;
  readonly toolParser: ToolParser | undefined;
  readonly excludeToolsWhenToolChoiceNone: boolean;
  readonly trustRequestChatTemplate: boolean;
  readonly trustRequestMmKwargs: boolean;
  readonly defaultChatTemplateKwargs: JsonObject;
  /** The template for a request with or without tools; throws a 400 when the model has none. */
  readonly template: (hasTools: boolean) => ChatTemplate;
  /** Image settings and the id of the placeholder; throws a 400 for a text model, a 501 for unknown geometry. */
  readonly images: () => ImageSettings & { readonly placeholderId: number };
}

/** Loads and compiles a profile; throws when a file is broken or a template is outside the supported set. */
export async function loadProfile(
  options: ProfileOptions,
  workers: TokenizerWorkers,
): Promise<Profile> {
  const files = await readProfileFiles(options.directory ?? DEFAULT_DIRECTORY);
  const { settings, modelConfig } = files;
  const names = options.servedModelNames ?? settings.names ?? [basename(files.directory)];
  const rootName = options.hashModelId ?? settings.hash?.model_id ?? names[0] ?? 'model';
  const maxModelLen =
    options.maxModelLen ??
    settings.max_model_len ??
    modelConfig.text_config?.max_position_embeddings ??
    modelConfig.max_position_embeddings;
  if (maxModelLen === undefined) {
    throw new Error(`${files.directory}: neither config.json nor profile.yaml says max_model_len`);
  }
  const imageSettings: ImageSettings = {
    geometry: imageGeometry(files),
    tensors: tensorSettings(files, options),
    hashModelId: rootName,
    hashAlgorithm: options.hashAlgorithm ?? settings.hash?.algorithm ?? 'blake3',
    hashScheme: options.hashScheme ?? settings.hash?.scheme ?? 'framed',
    maxImages: options.maxImages ?? DEFAULT_MAX_IMAGES,
    maxPixels: options.maxImagePixels ?? DEFAULT_MAX_IMAGE_PIXELS,
  };
  return {
    modelIds: names,
    rootName,
    maxModelLen,
    maxCharactersPerToken: options.maxCharactersPerToken ?? DEFAULT_CHARACTERS_PER_TOKEN,
    tokenizer: await loadTokenizer(files, workers, options),
    contentFormat: options.contentFormat ?? settings.content_format ?? 'auto',
    imagePlaceholder: settings.image_placeholder ?? IMAGE_PLACEHOLDER,
    strictPlaceholderId:
      (options.strictPlaceholders ?? settings.strict_placeholders)
        ? modelConfig.image_token_id
        : undefined,
    specialTokens: specialTokens(files.tokenizerConfig),
    samplingDefaults: samplingDefaults(files.generationConfig),
    enableAutoToolChoice: options.enableAutoToolChoice ?? true,
    toolParser: options.toolParser,
    excludeToolsWhenToolChoiceNone: options.excludeToolsWhenToolChoiceNone ?? false,
    trustRequestChatTemplate: options.trustRequestChatTemplate ?? false,
    trustRequestMmKwargs: options.trustRequestMmKwargs ?? false,
    defaultChatTemplateKwargs: options.defaultChatTemplateKwargs ?? new Map<string, JsonValue>(),
    template: chooseTemplate(files),
    images: () => ({ ...imageSettings, placeholderId: placeholderId(files, names[0] ?? rootName) }),
  };
}

/** Of all Llama classes and types it is this pair whose file transformers does not take as it is. */
async function loadTokenizer(
  { tokenizerFile, tokenizerConfig, modelConfig, settings }: ProfileFiles,
  workers: TokenizerWorkers,
  options: ProfileOptions,
): Promise<Tokenizer> {
  const isRebuilt =
    modelConfig.model_type === 'llama' &&
    /^LlamaTokenizer(?:Fast)?$/.test(tokenizerConfig.tokenizer_class ?? '');
  const definition = await readFile(tokenizerFile, 'utf8');
  return Tokenizer.load(isRebuilt ? rebuildLlamaTokenizer(definition) : definition, workers, {
    choice: options.tokenizer,
    bos: options.bos ?? settings.bos,
    bosToken: tokenText(tokenizerConfig['bos_token']),
  });
}

function placeholderId({ modelConfig, preprocessorConfig }: ProfileFiles, name: string): number {
  if (modelConfig.vision_config === undefined) {
    throw badRequest(`${name} is not a multimodal model`);
  }
  const id = modelConfig.image_token_id;
  const isKnown = IMAGE_MODEL_TYPES.has(modelConfig.model_type ?? '');
  if (!isKnown || id === undefined || preprocessorConfig === undefined) {
    throw notImplemented(`images of model type ${modelConfig.model_type ?? 'unknown'}`);
  }
  return id;
}

/** Defaults are those of the image processor class; `min_pixels` and `max_pixels` win over `size`. */
function imageGeometry({ preprocessorConfig: config }: ProfileFiles): ImageGeometry {
  return {
    patchSize: config?.patch_size ?? 14,
    mergeSize: config?.merge_size ?? 2,
    minPixels: config?.min_pixels ?? config?.size?.shortest_edge ?? 3136,
    maxPixels: config?.max_pixels ?? config?.size?.longest_edge ?? 1_003_520,
    doResize: config?.do_resize ?? true,
  };
}

/** Defaults are those of the image processor class, uint8 is that of the workers since vLLM 0.28. */
function tensorSettings(
  { preprocessorConfig: config, settings }: ProfileFiles,
  options: ProfileOptions,
): ImageSettings['tensors'] {
  return {
    dtype: options.pixelDtype ?? settings.pixel_dtype ?? 'uint8',
    kwargsLayout: options.kwargsLayout ?? settings.kwargs_layout ?? 'map',
    normalisation: { mean: config?.image_mean ?? CLIP_MEAN, std: config?.image_std ?? CLIP_STD },
    resizeWeights: settings.resize_weights ?? 'torch',
  };
}

function chooseTemplate(files: ProfileFiles): (hasTools: boolean) => ChatTemplate {
  const compile = (source: string | undefined): ChatTemplate | undefined =>
    source === undefined ? undefined : new ChatTemplate(source);
  const { chat_template: entry } = files.tokenizerConfig;
  const named = (name: string): string | undefined =>
    Array.isArray(entry) ? entry.find((item) => item.name === name)?.template : undefined;
  const jinja = compile(files.jinjaTemplate);
  const tokenizerTemplate = jinja ?? compile(typeof entry === 'string' ? entry : named('default'));
  const withTools =
    compile(files.toolTemplate) ?? jinja ?? compile(named('tool_use')) ?? tokenizerTemplate;
  const withoutTools = jinja ?? compile(files.processorTemplate) ?? tokenizerTemplate;
  return (hasTools) => {
    const template = hasTools ? withTools : withoutTools;
    if (template === undefined) throw badRequest('The model has no chat template.');
    return template;
  };
}

function specialTokens(config: Readonly<Record<string, unknown>>): ReadonlyMap<string, Value> {
  const tokens = new Map<string, Value>();
  for (const name of SPECIAL_TOKENS) {
    const text = tokenText(config[name]);
    if (text !== undefined) tokens.set(name, text);
  }
  const additional = config['additional_special_tokens'];
  if (Array.isArray(additional)) {
    const texts = additional.map(tokenText).filter((text) => text !== undefined);
    tokens.set('additional_special_tokens', fromJson(texts));
  }
  return tokens;
}

function tokenText(value: unknown): string | undefined {
  if (typeof value === 'string') return value;
  const isAddedToken = typeof value === 'object' && value !== null && 'content' in value;
  return isAddedToken && typeof value.content === 'string' ? value.content : undefined;
}

function samplingDefaults(config: ProfileFiles['generationConfig']): SamplingDefaults {
  const value = (number: number | null | undefined): number | undefined => number ?? undefined;
  return {
    temperature: value(config.temperature),
    top_p: value(config.top_p),
    top_k: value(config.top_k),
    min_p: value(config.min_p),
    repetition_penalty: value(config.repetition_penalty),
    max_new_tokens: value(config.max_new_tokens),
  };
}
