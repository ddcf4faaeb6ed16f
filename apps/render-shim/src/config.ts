import { readFileSync } from 'node:fs';
import { dirname, resolve } from 'node:path';

import {
  boolean,
  ConfigError,
  describeProblem,
  duration,
  integer,
  nearestName,
  oneOf,
  setting,
  text,
  textList,
} from '@llm-d/config';
import { type JsonObject, type JsonValue, type ProfileOptions } from '@llm-d/render';
import { parseListenAddress, type ListenAddress } from '@llm-d/service';
import { parse as parseYaml } from 'yaml';
import { z } from 'zod';

/** What a render shim starts with; durations in milliseconds. */
export interface ShimConfig {
  readonly listen: ListenAddress;
  readonly logLevel: 1 | 2 | 3 | 4 | 5;
  readonly maxBodyBytes: number;
  readonly readTimeoutMs: number;
  readonly shutdownTimeoutMs: number;
  readonly drainDelayMs: number;
  readonly model: ProfileOptions;
}

const listenAddress = setting('an address such as :8080 or 127.0.0.1:8080', (value) =>
  typeof value === 'string' ? parseListenAddress(value) : undefined,
);

const templateKwargs = setting('a mapping of template variables', (value) => {
  const kwargs = toJson(value);
  return kwargs instanceof Map ? kwargs : undefined;
});

/** One model is served; the list leaves room for more. */
const model = z.strictObject({
  id: text.optional(),
  aliases: textList.optional(),
  mode: oneOf('embedded').optional(),
  profile: text.optional(),
  content_format: oneOf('auto', 'auto-legacy', 'string', 'openai').optional(),
  max_model_len: integer('a positive number of tokens', 1).optional(),
  hash: z
    .strictObject({
      model_id: text.optional(),
      algorithm: oneOf('blake3', 'sha256', 'sha512').optional(),
    })
    .optional(),
  pixel_dtype: oneOf('uint8', 'bfloat16').optional(),
  enable_auto_tool_choice: boolean.optional(),
  trust_request_chat_template: boolean.optional(),
  trust_request_mm_kwargs: boolean.optional(),
  default_chat_template_kwargs: templateKwargs.optional(),
});

const shimFile = z.strictObject({
  listen: listenAddress.prefault(':8080'),
  log_level: integer('a level from 1 (warnings) to 5 (everything)', 1, 5).prefault(2),
  read_timeout: duration.prefault('30s'),
  shutdown_timeout: duration.prefault('30s'),
  drain_delay: duration.prefault('0'),
  limits: z
    .strictObject({
      max_body_bytes: integer('a positive number of bytes', 1).prefault(67_108_864),
      max_images: integer('a positive number of images', 1).prefault(32),
      max_image_pixels: integer('a positive number of pixels', 1).prefault(50_000_000),
    })
    .prefault({}),
  models: z.array(model).max(1, 'at most one model').prefault([]),
});

/** Flags and their variables; the list of names ends in commas in a variable. */
const sources: Readonly<Record<string, string>> = {
  config: 'SHIM_CONFIG',
  listen: 'SHIM_LISTEN',
  'log-level': 'SHIM_LOG_LEVEL',
  profile: 'SHIM_PROFILE',
  'served-model-name': 'SHIM_SERVED_MODEL_NAME',
};

/**
 * Reads the configuration: flags win over `SHIM_*` variables, those over the file. Paths in the file count from the
 * file, others from the working directory. Throws a ConfigError that names every problem.
 */
export function loadShimConfig(
  argv: readonly string[],
  environment: Readonly<Record<string, string | undefined>>,
): ShimConfig {
  const given = readFlags(argv);
  for (const [flag, variable] of Object.entries(sources)) {
    const value = environment[variable];
    if (value !== undefined && value !== '' && !given.has(flag)) given.set(flag, value.split(','));
  }
  const file = given.get('config')?.at(-1);
  const listen = given.get('listen')?.at(-1);
  const logLevel = given.get('log-level')?.at(-1);
  const values = {
    ...(file !== undefined && readFile(file)),
    ...(listen !== undefined && { listen }),
    ...(logLevel !== undefined && {
      log_level: /^\d+$/.test(logLevel) ? Number(logLevel) : logLevel,
    }),
  };
  const result = shimFile.safeParse(values);
  if (!result.success) throw new ConfigError(result.error.issues.flatMap(describeIssue(values)));
  const { data } = result;
  const profile = given.get('profile')?.at(-1);
  const names = given.get('served-model-name');
  return {
    listen: data.listen,
    logLevel: data.log_level as ShimConfig['logLevel'],
    maxBodyBytes: data.limits.max_body_bytes,
    readTimeoutMs: data.read_timeout,
    shutdownTimeoutMs: data.shutdown_timeout,
    drainDelayMs: data.drain_delay,
    model: {
      ...profileOptions(data.models[0] ?? {}, file === undefined ? '.' : dirname(file)),
      maxImages: data.limits.max_images,
      maxImagePixels: data.limits.max_image_pixels,
      ...(profile !== undefined && { directory: resolve(profile) }),
      ...(names !== undefined && { servedModelNames: names }),
    },
  };
}

function profileOptions(entry: z.infer<typeof model>, base: string): ProfileOptions {
  const names = [...(entry.id === undefined ? [] : [entry.id]), ...(entry.aliases ?? [])];
  return {
    ...(names.length > 0 && { servedModelNames: names }),
    ...(entry.profile !== undefined && { directory: resolve(base, entry.profile) }),
    ...(entry.content_format !== undefined && { contentFormat: entry.content_format }),
    ...(entry.max_model_len !== undefined && { maxModelLen: entry.max_model_len }),
    ...(entry.hash?.model_id !== undefined && { hashModelId: entry.hash.model_id }),
    ...(entry.hash?.algorithm !== undefined && { hashAlgorithm: entry.hash.algorithm }),
    ...(entry.pixel_dtype !== undefined && { pixelDtype: entry.pixel_dtype }),
    ...(entry.enable_auto_tool_choice !== undefined && {
      enableAutoToolChoice: entry.enable_auto_tool_choice,
    }),
    ...(entry.trust_request_chat_template !== undefined && {
      trustRequestChatTemplate: entry.trust_request_chat_template,
    }),
    ...(entry.trust_request_mm_kwargs !== undefined && {
      trustRequestMmKwargs: entry.trust_request_mm_kwargs,
    }),
    ...(entry.default_chat_template_kwargs !== undefined && {
      defaultChatTemplateKwargs: entry.default_chat_template_kwargs,
    }),
  };
}

function readFlags(argv: readonly string[]): Map<string, string[]> {
  const given = new Map<string, string[]>();
  const rest = [...argv];
  for (let word = rest.shift(); word !== undefined; word = rest.shift()) {
    const [, name = '', inline] = /^--([a-z-]+)(?:=(.*))?$/s.exec(word) ?? [];
    if (!(name in sources)) throw new ConfigError([describeUnknownFlag(word, name)]);
    const value = inline ?? rest.shift();
    if (value === undefined || value === '') {
      throw new ConfigError([`--${name}: expected a value, got nothing`]);
    }
    given.set(name, [...(given.get(name) ?? []), value]);
  }
  return given;
}

function describeUnknownFlag(word: string, name: string): string {
  if (name === '') return describeProblem('command line', 'flags such as --config', word);
  const nearest = nearestName(name, Object.keys(sources));
  return `--${name}: unknown flag${nearest ? `, did you mean --${nearest}?` : ''}`;
}

function readFile(file: string): Record<string, unknown> {
  let content: unknown;
  try {
    content = parseYaml(readFileSync(file, 'utf8')) ?? {};
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new ConfigError([`${file}: cannot be read: ${reason}`], { cause });
  }
  if (typeof content !== 'object' || content === null || Array.isArray(content)) {
    throw new ConfigError([describeProblem(file, 'a mapping of keys', content)]);
  }
  return { ...content };
}

function describeIssue(values: unknown): (issue: z.core.$ZodIssue) => string[] {
  return (issue) => {
    const path = issue.path.map(String).join('.');
    if (issue.code === 'unrecognized_keys') {
      return issue.keys.map((key) => `${path === '' ? key : `${path}.${key}`}: unknown key`);
    }
    const value = issue.path.reduce<unknown>(
      (parent, key) =>
        typeof parent === 'object' && parent !== null
          ? (parent as Record<PropertyKey, unknown>)[key]
          : undefined,
      values,
    );
    return [describeProblem(path, issue.message, value)];
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
