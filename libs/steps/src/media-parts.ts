import { type Api } from '@llm-d/gateway';
import { type JsonSpan } from '@llm-d/json-document';
import { BadRequestError, type Modality, type RequestContext } from '@llm-d/pipeline';

/** One media part of a client's body. */
export interface MediaPart {
  readonly modality: Modality;
  readonly part: JsonSpan;
  /** The string that holds the URL; with a format, plain base64. */
  readonly url: JsonSpan;
  /** What `input_audio` says of its bytes. */
  readonly format?: string;
  /** Where it stands, for messages to the client. */
  readonly path: string;
}

/** A type of parts that hold media in the member of one name. */
interface PartKind {
  readonly type: string;
  readonly modality: Modality;
  readonly member: string;
  /** Path of the URL in a part. */
  readonly urlPath: string;
  urlOf(value: JsonSpan): JsonSpan | undefined;
  readonly hasFormat?: true;
  /** What is asked of a part without a URL. */
  readonly demand: string;
}

/** Where the bodies of an API have their media. */
interface Layout {
  /** The top-level list. */
  readonly list: string;
  /** Lists of parts in its elements. */
  readonly partLists: readonly string[];
  readonly kinds: readonly PartKind[];
}

const byUrl = (modality: Modality): PartKind => ({
  type: `${modality}_url`,
  modality,
  member: `${modality}_url`,
  urlPath: `${modality}_url.url`,
  urlOf: (value) => value.get('url'),
  demand: `${modality}_url.url must be a text`,
});

const layouts: Partial<Record<Api, Layout>> = {
  chat: {
    list: 'messages',
    partLists: ['content'],
    kinds: [
      byUrl('image'),
      byUrl('video'),
      byUrl('audio'),
      {
        type: 'input_audio',
        modality: 'audio',
        member: 'input_audio',
        urlPath: 'input_audio.data',
        urlOf: (value) => value.get('data'),
        hasFormat: true,
        demand: 'input_audio.data must be a text',
      },
    ],
  },
  responses: {
    list: 'input',
    // Results of function calls have theirs in `output`.
    partLists: ['content', 'output'],
    kinds: [
      {
        type: 'input_image',
        modality: 'image',
        member: 'image_url',
        urlPath: 'image_url',
        urlOf: (value) => value,
        demand: 'image_url must be a text, an image by file_id is not served',
      },
    ],
  },
};

const imagesOnly: readonly Modality[] = ['image'];

/**
 * The media parts of a body in document order. Other parts and modalities are left alone, and so are lists of other APIs.
 *
 * @throws BadRequestError for a media part without a usable URL: skipping it would pair later images with wrong hashes.
 */
export function mediaParts(
  { api, body }: RequestContext,
  modalities: readonly Modality[] = imagesOnly,
): MediaPart[] {
  const layout = layouts[api];
  if (!layout) return [];
  const found: MediaPart[] = [];
  let index = 0;
  for (const item of body.get(layout.list)?.elements() ?? []) {
    found.push(...partsOfItem(item, `${layout.list}[${index}]`, layout, modalities));
    index++;
  }
  return found;
}

/** Walks inside the loop over the members: what has been walked need not be skipped again. Of duplicates the last counts. */
function partsOfItem(
  item: JsonSpan,
  path: string,
  layout: Layout,
  modalities: readonly Modality[],
): MediaPart[] {
  const found = new Map<string, MediaPart[]>();
  item.eachMember(({ name, value: list }) => {
    if (!layout.partLists.includes(name)) return;
    const parts: MediaPart[] = [];
    let index = 0;
    for (const part of list.elements()) {
      const media = mediaPart(part, `${path}.${name}[${index}]`, layout, modalities);
      if (media) parts.push(media);
      index++;
    }
    found.set(name, parts);
  });
  return [...found.values()].flat();
}

function mediaPart(
  part: JsonSpan,
  path: string,
  { kinds }: Layout,
  modalities: readonly Modality[],
): MediaPart | undefined {
  const found: {
    kind?: PartKind | undefined;
    member?: string;
    held?: JsonSpan;
    url?: JsonSpan | undefined;
  } = {};
  part.eachMember(({ name, value }) => {
    if (name === 'type') {
      const type = value.text();
      found.kind = kinds.find((one) => one.type === type);
    } else {
      const holder = kinds.find((one) => one.member === name);
      if (!holder) return;
      found.member = name;
      found.held = value;
      found.url = holder.urlOf(value);
    }
  });
  const { kind, member, held, url } = found;
  if (!kind || !modalities.includes(kind.modality)) return undefined;
  const { hasFormat, modality } = kind;
  if (member === kind.member && url?.kind === 'string') {
    const format = hasFormat ? (held?.get('format')?.text() ?? '') : undefined;
    return { modality, part, url, path, ...(format !== undefined && { format }) };
  }
  throw new BadRequestError(`${path}: ${kind.demand}`, { param: `${path}.${kind.urlPath}` });
}
