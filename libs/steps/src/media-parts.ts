import { type Api } from '@llm-d/gateway';
import { type JsonSpan } from '@llm-d/json-document';
import { BadRequestError, type RequestContext } from '@llm-d/pipeline';

/** One image part of a client's body. */
export interface MediaPart {
  readonly part: JsonSpan;
  /** The string that holds the URL. */
  readonly url: JsonSpan;
  /** Where it stands, for messages to the client. */
  readonly path: string;
}

/** Where the bodies of an API have their images. */
interface Layout {
  /** The top-level list. */
  readonly list: string;
  /** Lists of parts in its elements. */
  readonly partLists: readonly string[];
  readonly partType: string;
  /** Path of the URL in a part. */
  readonly urlPath: string;
  urlOf(image: JsonSpan): JsonSpan | undefined;
  /** What is asked of a part without a URL. */
  readonly demand: string;
}

const layouts: Partial<Record<Api, Layout>> = {
  chat: {
    list: 'messages',
    partLists: ['content'],
    partType: 'image_url',
    urlPath: 'image_url.url',
    urlOf: (image) => image.get('url'),
    demand: 'image_url.url must be a text',
  },
  responses: {
    list: 'input',
    // Results of function calls have theirs in `output`.
    partLists: ['content', 'output'],
    partType: 'input_image',
    urlPath: 'image_url',
    urlOf: (image) => image,
    demand: 'image_url must be a text, an image by file_id is not served',
  },
};

/**
 * The image parts of a body in document order. Other parts are left alone, and so are lists of other APIs.
 *
 * @throws BadRequestError for an image part without a usable URL: skipping it would pair later images with wrong hashes.
 */
export function mediaParts({ api, body }: RequestContext): MediaPart[] {
  const layout = layouts[api];
  if (!layout) return [];
  const found: MediaPart[] = [];
  let index = 0;
  for (const item of body.get(layout.list)?.elements() ?? []) {
    found.push(...partsOfItem(item, `${layout.list}[${index}]`, layout));
    index++;
  }
  return found;
}

/** Walks inside the loop over the members: what has been walked need not be skipped again. Of duplicates the last counts. */
function partsOfItem(item: JsonSpan, path: string, layout: Layout): MediaPart[] {
  const found = new Map<string, MediaPart[]>();
  for (const { name, value: list } of item.members()) {
    if (!layout.partLists.includes(name)) continue;
    const parts: MediaPart[] = [];
    let index = 0;
    for (const part of list.elements()) {
      const media = mediaPart(part, `${path}.${name}[${index}]`, layout);
      if (media) parts.push(media);
      index++;
    }
    found.set(name, parts);
  }
  return [...found.values()].flat();
}

function mediaPart(part: JsonSpan, path: string, layout: Layout): MediaPart | undefined {
  let [isImage, url] = [false, undefined as JsonSpan | undefined];
  for (const { name, value } of part.members()) {
    if (name === 'type') isImage = value.text() === layout.partType;
    else if (name === 'image_url') url = layout.urlOf(value);
  }
  if (!isImage) return undefined;
  if (url?.kind === 'string') return { part, url, path };
  throw new BadRequestError(`${path}: ${layout.demand}`, { param: `${path}.${layout.urlPath}` });
}
