import { MediaError } from './media-error.ts';
import { type ContentCheck, type MediaFetchOptions, type Modality } from './options.ts';

/** Stands for bytes whose type nobody named. */
export const unknownType = 'application/octet-stream';

const aliases = new Map([
  ['image/jpg', 'image/jpeg'],
  ['image/pjpeg', 'image/jpeg'],
  ['image/x-png', 'image/png'],
  ['binary/octet-stream', unknownType],
  ['audio/x-wav', 'audio/wav'],
  ['audio/mp3', 'audio/mpeg'],
]);

const videoTypes = ['video/mp4', 'video/webm', 'video/quicktime'];
const audioTypes = [
  'audio/wav',
  'audio/mpeg',
  'audio/ogg',
  'audio/flac',
  'audio/mp4',
  'audio/webm',
];

/** Types that a modality may have; an empty list is any. */
export function allowedTypes(
  modality: Modality,
  options: Pick<MediaFetchOptions, 'allowedImageTypes' | 'allowedTypes'>,
): readonly string[] {
  const listed = options.allowedTypes?.[modality];
  if (listed !== undefined) {
    return listed;
  }
  switch (modality) {
    case 'image':
      return options.allowedImageTypes;
    case 'video':
      return videoTypes;
    case 'audio':
      return audioTypes;
  }
}

/** Whether a type is on a list from `allowedTypes`. */
export function isAllowedType(allowed: readonly string[], type: string): boolean {
  return allowed.length === 0 || allowed.includes(type);
}

/**
 * A clean type token from a `Content-Type` header or the head of a `data:` URI: without parameters, lower
 * case, aliases mapped; undefined when it is not `token/token`.
 */
export function cleanType(text: string): string | undefined {
  const type = (text.split(';', 1)[0] ?? '').trim().toLowerCase();
  return /^[\w!#$&^.+-]+\/[\w!#$&^.+-]+$/.test(type) ? (aliases.get(type) ?? type) : undefined;
}

/** The failure for a type that is not accepted. `type` is a clean token, so it may be shown. */
export function typeNotAllowed(doing: string, type: string): MediaError {
  const hint = type === 'image/heic' ? '; HEIC is not supported, send JPEG or PNG' : '';
  return new MediaError('media_type_not_allowed', `${doing}: type ${type} is not accepted${hint}`);
}

/** What decides the type of media. */
export interface TypeEvidence {
  /** Begins the message of a failure, for example `downloading image`. */
  readonly doing: string;
  readonly modality: Modality;
  readonly contentCheck: ContentCheck;
  readonly allowed: readonly string[];
  /** From the origin or the head of the `data:` URI, as `cleanType` returns it. */
  readonly declared: string | undefined;
  /** From the bytes, as `sniffType` returns it. */
  readonly sniffed: string | undefined;
}

/**
 * The type that media is passed on with, by media-fetcher.md 5.2 and 5.7; throws MediaError
 * `media_type_not_allowed`. For video and audio the type must be on the list, because the reader picks its
 * decoder by it; an image of unknown bytes passes with `sniff` when nothing contradicts it.
 */
export function decideType(evidence: TypeEvidence): string {
  const { allowed, contentCheck, modality } = evidence;
  const declared = evidence.declared ?? unknownType;
  if (contentCheck === 'off') {
    return declared;
  }
  const sniffed = soundOf(modality, evidence.sniffed);
  if (sniffed === undefined && contentCheck === 'sniff') {
    if (isAllowedType(allowed, declared) || (declared === unknownType && modality === 'image')) {
      return declared;
    }
  } else if (sniffed !== undefined && isAllowedType(allowed, sniffed)) {
    return sniffed;
  }
  throw typeNotAllowed(evidence.doing, sniffed ?? declared);
}

/** A container without a picture has the same first bytes as one with it; the modality tells them apart. */
function soundOf(modality: Modality, sniffed: string | undefined): string | undefined {
  return modality === 'audio' && (sniffed === 'video/mp4' || sniffed === 'video/webm')
    ? sniffed.replace('video/', 'audio/')
    : sniffed;
}
