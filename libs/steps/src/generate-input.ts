import { JsonRaw, type JsonSpan } from '@llm-d/json-document';
import {
  BadRequestError,
  type MediaEntry,
  type RequestContext,
  TokenIdError,
  TokenIds,
} from '@llm-d/pipeline';
import { isInside, readPlaceholder } from './placeholders.ts';
import { checkPlaceholders, checkTokenCount, type PromptLimits } from './prompt-limits.ts';

/**
 * Reads a tokens-in request: ids and media features (coordinator.md 4.2). Nothing is sent anywhere.
 *
 * @throws BadRequestError naming the field.
 */
export function readGenerateInput(ctx: RequestContext, limits: PromptLimits): void {
  const ids = ctx.body.get('token_ids');
  if (ids?.kind !== 'array' || ids.isEmpty()) {
    throw refused('token_ids', 'must be a list of at least one token id');
  }
  const tokenIds = readTokenIds(ids, 'token_ids');
  checkTokenCount(tokenIds.length, limits);
  objectOrNothing(ctx.body.get('sampling_params'), 'sampling_params');
  const media = readFeatures(objectOrNothing(ctx.body.get('features'), 'features'));
  media.forEach(({ placeholder }, i) => {
    if (placeholder && !isInside(placeholder, tokenIds.length)) {
      throw refused(`features.mm_placeholders.image[${i}]`, 'lies outside the prompt');
    }
  });
  ctx.tokenIds = tokenIds;
  ctx.media = media;
  checkPlaceholders(ctx, limits);
}

/** @throws BadRequestError naming the element that is no token id. */
export function readTokenIds(list: JsonSpan, field: string): TokenIds {
  try {
    return TokenIds.read(list);
  } catch (cause) {
    if (!(cause instanceof TokenIdError)) throw cause;
    throw refused(`${field}[${cause.index}]`, 'must be a non-negative integer', cause);
  }
}

function readFeatures(features: JsonSpan | undefined): MediaEntry[] {
  const hashes = imageList(features, 'mm_hashes');
  if (!hashes || hashes.length === 0) return [];
  const placeholders = imageList(features, 'mm_placeholders');
  if (placeholders?.length !== hashes.length) {
    throw refused('features.mm_placeholders.image', `must have ${hashes.length} elements`);
  }
  const kwargs = imageList(features, 'kwargs_data');
  if (kwargs && kwargs.length !== hashes.length) {
    throw refused('features.kwargs_data.image', `must have ${hashes.length} elements`);
  }
  return hashes.map((span, i) => {
    const hash = span.text();
    if (hash === undefined) throw refused(`features.mm_hashes.image[${i}]`, 'must be a text');
    const placeholder = readPlaceholder(placeholders[i]);
    if (!placeholder) {
      throw refused(
        `features.mm_placeholders.image[${i}]`,
        'must have offset and length, both non-negative integers',
      );
    }
    const data = kwargs?.[i];
    if (data && data.kind !== 'string' && !data.isNull()) {
      throw refused(`features.kwargs_data.image[${i}]`, 'must be a text or null');
    }
    return { modality: 'image', hash, placeholder, ...kwargsOf(data) };
  });
}

/** Tensors as raw JSON text; an empty text and null both mean that the worker has them. */
export function kwargsOf(data: JsonSpan | undefined): { kwargsData?: JsonRaw } {
  return data?.kind === 'string' && data.byteLength > 2
    ? { kwargsData: new JsonRaw([data.bytes]) }
    : {};
}

/** The list for images of one of the maps by modality; undefined when it is absent or null. */
function imageList(features: JsonSpan | undefined, map: string): JsonSpan[] | undefined {
  const list = objectOrNothing(features?.get(map), `features.${map}`)?.get('image');
  if (!list || list.isNull()) return undefined;
  if (list.kind !== 'array') throw refused(`features.${map}.image`, 'must be a list');
  return [...list.elements()];
}

function objectOrNothing(value: JsonSpan | undefined, field: string): JsonSpan | undefined {
  if (!value || value.isNull()) return undefined;
  if (value.kind !== 'object') throw refused(field, 'must be an object');
  return value;
}

function refused(field: string, message: string, cause?: Error): BadRequestError {
  return new BadRequestError(`${field} ${message}`, { param: field, cause });
}
