import { type RenderedPrompt } from '@llm-d/render';
import { ApiError, badField } from './api-error.ts';
import { isObject, type JsonObject, parseExact } from './exact-json.ts';
import { type Api, type InferenceInput } from './inference-input.ts';
import { type PromptReader } from './prompt-reader.ts';
import { type Prompt, type PromptImage } from './prompt.ts';

/** Bounds of a prompt. */
export interface PromptLimits {
  maxModelLen: number;
  vocabSize: number;
}

/** Prompts of one completions call. */
const maxPrompts = 1024;

/**
 * Turns a body of any form into prompts, rendering text itself as a real engine does. Throws ApiError 400.
 * `uuids` are the caller's names of the media parts, undefined where a part has none.
 */
export async function readPrompts(
  input: InferenceInput,
  bytes: Uint8Array,
  reader: () => Promise<PromptReader>,
  limits: PromptLimits,
): Promise<{ prompts: Prompt[]; uuids: (string | undefined)[] }> {
  const read = async (): Promise<{ prompts: Prompt[]; uuids: (string | undefined)[] }> => {
    switch (input.api) {
      case 'chat':
      case 'responses': {
        const uuids = mediaUuids(input);
        // A uuid may replace the media hash, and it is the hash of the bytes that we compare it with.
        const hasUuid = uuids.some((uuid) => uuid !== undefined);
        const body = hasUuid ? withoutUuids(input.api, bytes) : bytes;
        return { prompts: [fromReader(await (await reader())[input.api](body))], uuids };
      }
      case 'completions':
        return { prompts: await completionPrompts(input.body, bytes, reader), uuids: [] };
      case 'generate':
        return { prompts: [generatePrompt(input.body)], uuids: [] };
    }
  };
  const result = await read();
  for (const { tokenIds } of result.prompts) checkIds(tokenIds, limits);
  return result;
}

const fromReader = ({ tokenIds, promptText, images }: RenderedPrompt): Prompt => ({
  tokenIds,
  text: promptText,
  images: images.map(({ hash, offset, length, gridThw, width, height }) => ({
    hash,
    offset,
    length,
    gridThw,
    size: { width, height },
    isEncodable: true,
  })),
});

async function completionPrompts(
  body: JsonObject,
  bytes: Uint8Array,
  reader: () => Promise<PromptReader>,
): Promise<Prompt[]> {
  const prompt = body['prompt'];
  const list: unknown[] =
    Array.isArray(prompt) && typeof prompt[0] !== 'number' ? prompt : [prompt];
  if (list.length === 0) throw badField('body.prompt', 'prompt must not be empty');
  if (list.length > maxPrompts) throw badField('body.prompt', `more than ${maxPrompts} prompts`);
  if (list.every((item) => typeof item === 'string')) {
    return (await (await reader()).completions(bytes)).map(fromReader);
  }
  return list.map((ids) => ({ tokenIds: tokenIds(ids, 'prompt'), text: undefined, images: [] }));
}

function generatePrompt(body: JsonObject): Prompt {
  const ids = tokenIds(body['token_ids'], 'token_ids');
  return { tokenIds: ids, text: undefined, images: featureImages(body['features'], ids.length) };
}

function tokenIds(value: unknown, param: string): Uint32Array {
  if (!Array.isArray(value)) throw badField(`body.${param}`, 'Input should be a valid list');
  if (value.length === 0) {
    throw badField(`body.${param}`, 'List should have at least 1 item after validation, not 0');
  }
  const ids = value as unknown[];
  const bad = ids.findIndex((id) => typeof id !== 'number' || !Number.isInteger(id) || id < 0);
  if (bad !== -1) {
    throw badField(`body.${param}`, `Input should be a non-negative integer, at index ${bad}`);
  }
  return Uint32Array.from(ids as number[]);
}

function checkIds(ids: Uint32Array, { maxModelLen, vocabSize }: PromptLimits): void {
  if (ids.length >= maxModelLen) {
    throw new ApiError(
      400,
      `The decoder prompt (length ${ids.length}) is longer than the maximum model length of ${maxModelLen}. ` +
        'Make sure that `max_model_len` is no smaller than the number of text tokens.',
    );
  }
  const strange = ids.find((id) => id >= vocabSize);
  if (strange !== undefined) throw new ApiError(400, `Token id ${strange} is out of vocabulary`);
}

/** Media of the tokens-in form: hashes, placeholders and processor outputs by position. */
function featureImages(features: unknown, promptLength: number): PromptImage[] {
  if (features === undefined || features === null) return [];
  if (!isObject(features)) throw badField('body.features', 'Input should be a valid dictionary');
  const hashes = modality(features, 'mm_hashes');
  const placeholders = modality(features, 'mm_placeholders');
  const kwargs = modality(features, 'kwargs_data');
  if (hashes.length !== placeholders.length) {
    throw badField('body.features', 'mm_hashes and mm_placeholders differ in length');
  }
  if (kwargs.length !== 0 && kwargs.length !== hashes.length) {
    throw badField('body.features', 'kwargs_data and mm_hashes differ in length');
  }
  return hashes.map((hash, index) => {
    const place = placeholders[index];
    const offset = isObject(place) ? place['offset'] : undefined;
    const length = isObject(place) ? place['length'] : undefined;
    if (typeof hash !== 'string' || typeof offset !== 'number' || typeof length !== 'number') {
      throw badField('body.features', `media item ${index} is malformed`);
    }
    if (offset < 0 || length < 1 || offset + length > promptLength) {
      throw badField('body.features', `placeholder ${index} lies outside the prompt`);
    }
    return {
      hash,
      offset,
      length,
      // The true grid is inside the processor output; this one has the same number of merged patches.
      gridThw: [1, 2, 2 * length],
      size: undefined,
      isEncodable: typeof kwargs[index] === 'string',
    };
  });
}

function modality(features: JsonObject, name: string): unknown[] {
  const byModality = features[name];
  const items = isObject(byModality) ? byModality['image'] : undefined;
  return Array.isArray(items) ? items : [];
}

/** The `uuid` of every media part, in document order. */
function mediaUuids({ api, body }: InferenceInput): (string | undefined)[] {
  return mediaParts(api, body).map(({ uuid }) => (typeof uuid === 'string' ? uuid : undefined));
}

function withoutUuids(api: Api, bytes: Uint8Array): Uint8Array {
  const body = parseExact(Buffer.from(bytes).toString('utf8'));
  if (isObject(body)) for (const part of mediaParts(api, body)) delete part['uuid'];
  return Buffer.from(JSON.stringify(body));
}

function mediaParts(api: Api, body: JsonObject): JsonObject[] {
  const isResponse = api === 'responses';
  const lists = isResponse ? ['content', 'output'] : ['content'];
  return listOf(body[isResponse ? 'input' : 'messages'])
    .filter(isObject)
    .flatMap((item) => lists.flatMap((name) => listOf(item[name])))
    .filter(isObject)
    .filter(({ type }) => typeof type === 'string' && mediaTypes.has(type));
}

const listOf = (value: unknown): unknown[] => (Array.isArray(value) ? value : []);

const mediaTypes = new Set(['image_url', 'image', 'input_image']);
