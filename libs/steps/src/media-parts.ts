import { type JsonSpan } from '@llm-d/json-document';
import { BadRequestError, type RequestContext } from '@llm-d/pipeline';

/** One image part of a chat body. */
export interface MediaPart {
  readonly part: JsonSpan;
  /** The string that holds the URL. */
  readonly url: JsonSpan;
  /** Where it stands, for messages to the client. */
  readonly path: string;
}

/**
 * The image parts of a chat body in document order. Other parts are left alone.
 *
 * @throws BadRequestError for an image part without a usable URL: skipping it would pair later images with wrong hashes.
 */
export function mediaParts(ctx: RequestContext): MediaPart[] {
  const found: MediaPart[] = [];
  if (ctx.api !== 'chat') return found;
  let m = 0;
  for (const message of ctx.body.get('messages')?.elements() ?? []) {
    let p = 0;
    for (const part of message.get('content')?.elements() ?? []) {
      if (part.get('type')?.text() === 'image_url') {
        const path = `messages[${m}].content[${p}]`;
        const url = part.get('image_url')?.get('url');
        if (url?.kind !== 'string') {
          throw new BadRequestError(`${path}: image_url.url must be a text`, {
            param: `${path}.image_url.url`,
          });
        }
        found.push({ part, url, path });
      }
      p++;
    }
    m++;
  }
  return found;
}
