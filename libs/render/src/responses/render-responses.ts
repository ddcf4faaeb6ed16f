import { type RenderedPrompt } from '../answer/rendered-prompt.ts';
import { renderChat, type RenderResources } from '../chat/render-chat.ts';
import { type RequestFields } from '../chat/request-fields.ts';
import { RenderError } from '../errors.ts';
import { type JsonObject } from '../json/json-value.ts';
import { type Profile } from '../profile.ts';
import { toChatRequest } from './chat-request.ts';

/** Renders a responses request as the chat that it stands for. As `renderChat` does. */
export async function renderResponses(
  fields: RequestFields,
  profile: Profile,
  resources: RenderResources = {},
): Promise<RenderedPrompt> {
  const chat = toChatRequest(fields, profile.maxModelLen);
  if (fields.get('previous_response_id') !== undefined) {
    throw new RenderError(
      400,
      'invalid_request_error',
      'previous_response_id is not supported by the stateless render endpoint.',
      'previous_response_id',
    );
  }
  // Upstream asks for a tool parser on the chat route only.
  const prompt = await renderChat(chat, { ...profile, enableAutoToolChoice: true }, resources);
  return { ...prompt, samplingParams: withExtraArgs(prompt), parseContext: null };
}

/** In answers of this API the sampling parameters have the transfer params once more, and an object without them too. */
function withExtraArgs(prompt: RenderedPrompt): JsonObject {
  const extra: JsonObject = new Map(
    (
      [
        ['kv_transfer_params', prompt.kvTransferParams],
        ['ec_transfer_params', prompt.ecTransferParams],
      ] as const
    ).filter(([, params]) => params instanceof Map && params.size > 0),
  );
  const params: JsonObject = new Map();
  for (const [name, value] of prompt.samplingParams) {
    if (name === 'bad_words') params.set('extra_args', extra);
    params.set(name, value);
  }
  return params;
}
