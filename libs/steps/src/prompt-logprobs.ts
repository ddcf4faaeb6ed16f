import { type JsonSpan } from '@llm-d/json-document';
import { type RequestContext } from '@llm-d/pipeline';

/**
 * The field that asks for log probabilities of the prompt, if there is one: `prompt_logprobs`, or `echo` of completions
 * that want `logprobs`. They come from the worker that computes the prompt, and a decode worker that fetches its KV
 * cache answers without them or fails.
 */
export function promptLogprobsField({ api, body }: RequestContext): string | undefined {
  switch (api) {
    case 'responses':
      return undefined;
    case 'generate': {
      const sampling = body.get('sampling_params');
      return isAsked(sampling?.get('prompt_logprobs'))
        ? 'sampling_params.prompt_logprobs'
        : undefined;
    }
    case 'completions':
      if (body.isTrue('echo') && isAsked(body.get('logprobs'))) return 'echo';
      return isAsked(body.get('prompt_logprobs')) ? 'prompt_logprobs' : undefined;
    case 'chat':
      return isAsked(body.get('prompt_logprobs')) ? 'prompt_logprobs' : undefined;
  }
}

/** Zero asks too: for the token that stands there alone. */
const isAsked = (value: JsonSpan | undefined): boolean => value !== undefined && !value.isNull();
