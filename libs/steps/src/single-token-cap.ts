import { type Api } from '@llm-d/gateway';
import { type JsonInput } from '@llm-d/json-document';

type Edits = Record<string, JsonInput | undefined>;

/**
 * Edits that make an encode or prefill leg ask for exactly one token, not streamed (coordinator.md 4.0). A chat worker
 * takes `max_completion_tokens` over `max_tokens`, so both are set.
 */
export const singleTokenCap: Record<Api, Edits> = {
  chat: {
    max_tokens: 1,
    max_completion_tokens: 1,
    // The Responses API's cap has no meaning here, and must not contradict where somebody reads it (cases.md C34).
    max_output_tokens: undefined,
    stream: false,
    min_tokens: undefined,
    stream_options: undefined,
  },
  completions: {
    max_tokens: 1,
    stream: false,
    min_tokens: undefined,
    stream_options: undefined,
  },
  generate: {
    sampling_params: { max_tokens: 1 },
    stream: false,
    stream_options: undefined,
  },
  responses: {
    max_output_tokens: 1,
    stream: false,
    // Nobody asks for the answer of a synthetic leg again.
    store: false,
    min_tokens: undefined,
    stream_options: undefined,
  },
};
