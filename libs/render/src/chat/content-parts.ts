import { asGap, badRequest } from '../errors.ts';
import { type JsonObject, type JsonValue } from '../json/json-value.ts';

/** An image of a message: its URL, or a `uuid` that stands for it. */
export interface ImageReference {
  readonly url: string;
  readonly uuid: string | undefined;
}

/** One part of a message's content; `extras` are keys that the API does not know but a template may read. */
export type ContentPart =
  | { readonly kind: 'text'; readonly text: string; readonly extras: JsonObject }
  | { readonly kind: 'image'; readonly image: ImageReference; readonly extras: JsonObject };

const KNOWN_KEYS = new Set(['type', 'text', 'image_url', 'uuid', 'refusal', 'thinking']);
/** Keys that make a part without `type` a media part. */
const MEDIA_KEYS = ['video_url', 'audio_url', 'input_audio', 'image_embeds', 'audio_embeds'];

/** Reads a content list; a part with a null text is left out. Throws the 400s of vLLM's part validation. */
export function readContentParts(content: readonly JsonValue[]): ContentPart[] {
  return content.flatMap((part, at) => {
    if (!(part instanceof Map)) throw badRequest(`content part ${at} must be an object`);
    return readPart(part, at);
  });
}

function readPart(part: JsonObject, at: number): ContentPart[] {
  const type = part.get('type');
  switch (type) {
    case 'text':
    case 'refusal':
    case 'thinking':
      return readText(part, type, at);
    case 'image_url':
      return [readImage(part, at)];
    case 'input_image':
      if (typeof part.get('image_url') !== 'string' || part.get('detail') === undefined) {
        throw badRequest(`content part ${at}: input_image needs image_url and detail`);
      }
      return [image(part, part.get('image_url'), at)];
    case undefined:
      return [readUntyped(part, at)];
    default:
      refuseMedia(typeof type === 'string' ? type : '');
      throw badRequest(`content part ${at} has an unknown type`);
  }
}

function readText(part: JsonObject, key: string, at: number): ContentPart[] {
  const text = part.get(key);
  if (text === null) return [];
  if (typeof text !== 'string') {
    throw badRequest(`content part ${at}: ${key} should be a valid string`);
  }
  return [{ kind: 'text', text, extras: extrasOf(part) }];
}

function readImage(part: JsonObject, at: number): ContentPart {
  const source = part.get('image_url');
  if (source === null && typeof part.get('uuid') === 'string') {
    throw badRequest('Cache miss for image at index 0 but data is not provided.');
  }
  if (!(source instanceof Map)) {
    throw badRequest(`content part ${at}: image_url should be a valid dictionary`);
  }
  return image(part, source.get('url'), at);
}

/** A part without `type` is an image when it has an `image_url`, given as an object or as a plain text. */
function readUntyped(part: JsonObject, at: number): ContentPart {
  MEDIA_KEYS.filter((key) => part.has(key)).forEach(refuseMedia);
  const source = part.get('image_url');
  if (source === undefined || source === null) {
    throw badRequest(`content part ${at} has no type`);
  }
  return image(part, source instanceof Map ? source.get('url') : source, at);
}

function image(part: JsonObject, url: JsonValue | undefined, at: number): ContentPart {
  if (typeof url !== 'string') {
    throw badRequest(`content part ${at}: image_url.url should be a valid string`);
  }
  const uuid = part.get('uuid');
  if (uuid !== undefined && uuid !== null && typeof uuid !== 'string') {
    throw badRequest(`content part ${at}: uuid should be a valid string`);
  }
  return { kind: 'image', image: { url, uuid: uuid ?? undefined }, extras: extrasOf(part) };
}

function extrasOf(part: JsonObject): JsonObject {
  return new Map([...part].filter(([key]) => !KNOWN_KEYS.has(key)));
}

/** Media this renderer has no rules for. */
function refuseMedia(type: string): void {
  switch (type) {
    case 'image_embeds':
    case 'audio_embeds':
      throw badRequest(
        `You must set \`--enable-mm-embeds\` to input \`${type}\` (parameter=${type})`,
        type,
      );
    case 'input_audio':
    case 'audio_url':
      throw asGap(
        badRequest('At most 0 audio(s) may be provided in one prompt. (parameter=audio)', 'audio'),
      );
    case 'video_url':
      throw asGap(badRequest('Video is not supported by the embedded renderer.'));
    default:
  }
}
