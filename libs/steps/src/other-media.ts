import { type JsonSpan } from '@llm-d/json-document';
import { BadRequestError, type RequestContext } from '@llm-d/pipeline';

/**
 * Refuses audio and video where legs carry token ids: those carry the features of images only, so that a worker would
 * answer about a clip that it never got.
 *
 * @throws BadRequestError naming the part that render has found another modality in.
 */
export function refuseOtherMedia(
  { api, body }: RequestContext,
  features: JsonSpan | undefined,
): void {
  for (const { name, value } of features?.get('mm_hashes')?.members() ?? []) {
    if (name === 'image' || value.kind !== 'array' || value.isEmpty()) continue;
    const list = api === 'responses' ? 'input' : 'messages';
    const param = placeOf(body.get(list), list, name) ?? list;
    throw modalityNotServed(name, param);
  }
}

/** The refusal of a part whose kind of media legs with token ids cannot carry. */
export function modalityNotServed(modality: string, param: string): BadRequestError {
  return new BadRequestError(
    `${param}: ${modality} is not served here: legs carry token ids (use_openai_format: false)`,
    { param, code: 'media_modality_not_served' },
  );
}

/** Where the first part stands whose type names the modality, such as `input_audio` or `video_url`. */
function placeOf(items: JsonSpan | undefined, list: string, modality: string): string | undefined {
  let itemIndex = 0;
  for (const item of items?.elements() ?? []) {
    let partIndex = 0;
    for (const part of item.get('content')?.elements() ?? []) {
      if (part.get('type')?.text()?.includes(modality)) {
        return `${list}[${itemIndex}].content[${partIndex}].type`;
      }
      partIndex++;
    }
    itemIndex++;
  }
  return undefined;
}
