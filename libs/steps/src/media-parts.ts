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
  if (ctx.api !== 'chat') return [];
  const found: MediaPart[] = [];
  let index = 0;
  for (const message of ctx.body.get('messages')?.elements() ?? []) {
    found.push(...partsOfMessage(message, `messages[${index}].content`));
    index++;
  }
  return found;
}

/** Walks inside the loop over the members: what has been walked need not be skipped again. Of duplicates the last counts. */
function partsOfMessage(message: JsonSpan, path: string): MediaPart[] {
  let found: MediaPart[] = [];
  for (const { name, value: content } of message.members()) {
    if (name !== 'content') continue;
    found = [];
    let index = 0;
    for (const part of content.elements()) {
      const item = mediaPart(part, `${path}[${index}]`);
      if (item) found.push(item);
      index++;
    }
  }
  return found;
}

function mediaPart(part: JsonSpan, path: string): MediaPart | undefined {
  let [isImage, url] = [false, undefined as JsonSpan | undefined];
  for (const { name, value } of part.members()) {
    if (name === 'type') isImage = value.text() === 'image_url';
    else if (name === 'image_url') url = value.get('url');
  }
  if (!isImage) return undefined;
  if (url?.kind === 'string') return { part, url, path };
  throw new BadRequestError(`${path}: image_url.url must be a text`, {
    param: `${path}.image_url.url`,
  });
}
