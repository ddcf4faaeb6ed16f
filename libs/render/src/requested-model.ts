import { JsonDocument } from '@llm-d/json-document';

import { RequestFields } from './chat/request-fields.ts';

/**
 * The `model` that the bytes of a request name, found without reading the rest; undefined for none. Throws the
 * `RenderError` of vLLM for a body that is no JSON object.
 */
export function requestedModel(body: Uint8Array): string | undefined {
  try {
    return JsonDocument.parse(body).text('model');
  } catch {
    // The other parser knows vLLM's words for what is wrong, and takes what Python takes.
    return RequestFields.parse(body).text('model');
  }
}
