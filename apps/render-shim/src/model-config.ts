import { resolve } from 'node:path';

import {
  boolean,
  duration,
  httpAddress,
  integer,
  oneOf,
  setting,
  text,
  textList,
} from '@llm-d/config';
import {
  type JsonObject,
  type JsonValue,
  KWARGS_LAYOUTS,
  PIXEL_DTYPES,
  type ProfileOptions,
} from '@llm-d/render';
import { z } from 'zod';

/** One entry of `models`. */
export type ModelConfig =
  | { readonly mode: 'embedded'; readonly profile: ProfileOptions }
  | { readonly mode: 'proxy'; readonly upstream: UpstreamConfig }
  | {
      readonly mode: 'fallback';
      readonly profile: ProfileOptions;
      readonly upstream: UpstreamConfig;
    };

/** How vLLM render servers are used for one model. */
export interface UpstreamConfig {
  /** Names requests may use, the main one first. */
  readonly ids: readonly string[];
  /** Base addresses. */
  readonly addresses: readonly string[];
  /** Name of the model at the upstreams; undefined when it is the one that requests use. */
  readonly model: string | undefined;
  /** `light` checks the first byte of an answer and hands the rest on, `full` reads and repairs it, `off` does neither. */
  readonly normalise: 'off' | 'light' | 'full';
  /** Sends `tool_choice: none` in place of another choice, for upstreams without a tool parser. */
  readonly withoutToolChoice: boolean;
  /** From the request sent to the answer's headers. */
  readonly timeoutMs: number;
  /** Bytes of an answer. */
  readonly maxAnswerBytes: number;
  /** Longest time of a probe; a second when absent. Tests wait for a machine that is busy. */
  readonly probeMs?: number;
}

const templateKwargs = setting('a mapping of template variables', (value) => {
  const kwargs = toJson(value);
  return kwargs instanceof Map ? kwargs : undefined;
});

/** An entry as it stands in the file; which keys a mode needs is checked here too. */
export const modelEntry = z
  .strictObject({
    id: text.optional(),
    aliases: textList.optional(),
    mode: oneOf('embedded', 'proxy', 'fallback').prefault('embedded'),
    profile: text.optional(),
    bos: oneOf('auto', 'always', 'never').optional(),
    tokenizer: oneOf('auto', 'native', 'javascript').optional(),
    content_format: oneOf('auto', 'auto-legacy', 'string', 'openai').optional(),
    max_model_len: integer('a positive number of tokens', 1).optional(),
    hash: z
      .strictObject({
        model_id: text.optional(),
        algorithm: oneOf('blake3', 'sha256', 'sha512').optional(),
        scheme: oneOf('flat', 'nested', 'framed').optional(),
      })
      .optional(),
    pixel_dtype: oneOf(...PIXEL_DTYPES).optional(),
    kwargs_layout: oneOf(...KWARGS_LAYOUTS).optional(),
    strict_placeholders: boolean.optional(),
    enable_auto_tool_choice: boolean.optional(),
    tool_parser: oneOf('hermes').optional(),
    exclude_tools_when_tool_choice_none: boolean.optional(),
    trust_request_chat_template: boolean.optional(),
    trust_request_mm_kwargs: boolean.optional(),
    default_chat_template_kwargs: templateKwargs.optional(),
    upstreams: z.array(httpAddress('an address such as http://render:8000')).prefault([]),
    upstream_model: text.optional(),
    normalise: oneOf('off', 'light', 'full').prefault('light'),
    without_tool_choice: boolean.prefault(false),
    upstream_timeout: duration.prefault('60s'),
    max_answer_bytes: integer('a positive number of bytes', 1).prefault(268_435_456),
  })
  .superRefine((entry, context) => {
    const issue = (path: string, message: string): void => {
      context.addIssue({ code: 'custom', path: [path], message });
    };
    const usesUpstreams = entry.mode !== 'embedded';
    if (usesUpstreams && entry.upstreams.length === 0) {
      issue('upstreams', `at least one address for the mode ${entry.mode}`);
    }
    if (!usesUpstreams && entry.upstreams.length > 0) {
      issue('upstreams', 'none for the mode embedded');
    }
    if (entry.mode === 'proxy' && entry.id === undefined) {
      issue('id', 'a name for the mode proxy');
    }
    if (entry.mode === 'proxy' && entry.profile !== undefined) {
      issue('profile', 'none for the mode proxy');
    }
  });

type ModelEntry = z.infer<typeof modelEntry>;

/** Limits that hold for every model. */
export type ModelLimits = Required<
  Pick<ProfileOptions, 'maxImages' | 'maxImagePixels' | 'maxCharactersPerToken'>
>;

/** What an entry asks for; paths count from `base`. */
export function toModelConfig(entry: ModelEntry, base: string, limits: ModelLimits): ModelConfig {
  const upstream: UpstreamConfig = {
    ids: namesOf(entry),
    addresses: entry.upstreams,
    model: entry.upstream_model,
    normalise: entry.normalise,
    withoutToolChoice: entry.without_tool_choice,
    timeoutMs: entry.upstream_timeout,
    maxAnswerBytes: entry.max_answer_bytes,
  };
  const profile = { ...profileOptions(entry, base), ...limits };
  switch (entry.mode) {
    case 'embedded':
      return { mode: 'embedded', profile };
    case 'proxy':
      return { mode: 'proxy', upstream };
    case 'fallback':
      return { mode: 'fallback', profile, upstream };
  }
}

function namesOf(entry: ModelEntry): string[] {
  return [...(entry.id === undefined ? [] : [entry.id]), ...(entry.aliases ?? [])];
}

function profileOptions(entry: ModelEntry, base: string): ProfileOptions {
  const names = namesOf(entry);
  return defined({
    servedModelNames: names.length > 0 ? names : undefined,
    directory: entry.profile === undefined ? undefined : resolve(base, entry.profile),
    bos: entry.bos,
    tokenizer: entry.tokenizer,
    contentFormat: entry.content_format,
    maxModelLen: entry.max_model_len,
    hashModelId: entry.hash?.model_id,
    hashAlgorithm: entry.hash?.algorithm,
    hashScheme: entry.hash?.scheme,
    pixelDtype: entry.pixel_dtype,
    kwargsLayout: entry.kwargs_layout,
    strictPlaceholders: entry.strict_placeholders,
    enableAutoToolChoice: entry.enable_auto_tool_choice,
    toolParser: entry.tool_parser,
    excludeToolsWhenToolChoiceNone: entry.exclude_tools_when_tool_choice_none,
    trustRequestChatTemplate: entry.trust_request_chat_template,
    trustRequestMmKwargs: entry.trust_request_mm_kwargs,
    defaultChatTemplateKwargs: entry.default_chat_template_kwargs,
  });
}

/** The members of an object that are not undefined. */
function defined<T extends object>(object: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  // Object.fromEntries forgets which key has which value.
  return Object.fromEntries(Object.entries(object).filter(([, value]) => value !== undefined)) as {
    [K in keyof T]?: Exclude<T[K], undefined>;
  };
}

/** YAML values as JSON values, whole numbers as ints; undefined for what JSON cannot say. */
function toJson(value: unknown): JsonValue | undefined {
  if (value === null || typeof value === 'string' || typeof value === 'boolean') return value;
  if (typeof value === 'number') return Number.isSafeInteger(value) ? BigInt(value) : value;
  if (typeof value !== 'object') return undefined;
  if (Array.isArray(value)) {
    const items = value.map(toJson);
    return items.every((item) => item !== undefined) ? items : undefined;
  }
  const object: JsonObject = new Map();
  for (const [key, item] of Object.entries(value)) {
    const json = toJson(item);
    if (json === undefined) return undefined;
    object.set(key, json);
  }
  return object;
}
