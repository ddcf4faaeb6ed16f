import { BadRequestError } from '@llm-d/pipeline';
import { type MediaPart } from './media-parts.ts';

/** The one type that each `format` of an `input_audio` part stands for. */
const formats: Readonly<Record<string, string>> = {
  wav: 'audio/wav',
  mp3: 'audio/mpeg',
  flac: 'audio/flac',
  ogg: 'audio/ogg',
  opus: 'audio/ogg',
  m4a: 'audio/mp4',
  aac: 'audio/mp4',
  webm: 'audio/webm',
};

/**
 * The `data:` URI that inline audio would be, to be checked as one.
 *
 * @throws BadRequestError for a format that stands for no type.
 */
export function audioUri({ format = '', path }: MediaPart, data: Uint8Array): Buffer {
  const type = Object.hasOwn(formats, format) ? formats[format] : undefined;
  if (type === undefined) {
    throw new BadRequestError(
      `${path}: input_audio.format must be one of ${Object.keys(formats).join(', ')}`,
      { param: `${path}.input_audio.format`, code: 'media_type_not_allowed' },
    );
  }
  return Buffer.concat([Buffer.from(`data:${type};base64,`), data]);
}
