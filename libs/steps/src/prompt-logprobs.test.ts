import { type Api } from '@llm-d/gateway';
import { requestContext } from '@llm-d/pipeline/testing';
import { describe, expect, it } from '@jest/globals';
import { promptLogprobsField } from './prompt-logprobs.ts';

describe('promptLogprobsField', () => {
  it.each<{ api: Api; body: string; field: string | undefined }>([
    { api: 'chat', body: '{}', field: undefined },
    { api: 'chat', body: '{"logprobs":true,"top_logprobs":5}', field: undefined },
    { api: 'chat', body: '{"prompt_logprobs":2}', field: 'prompt_logprobs' },
    { api: 'chat', body: '{"prompt_logprobs":0}', field: 'prompt_logprobs' },
    { api: 'chat', body: '{"prompt_logprobs":-1}', field: 'prompt_logprobs' },
    { api: 'chat', body: '{"prompt_logprobs":null}', field: undefined },
    { api: 'chat', body: '{"echo":true,"logprobs":true}', field: undefined },
    { api: 'completions', body: '{"prompt_logprobs":1}', field: 'prompt_logprobs' },
    { api: 'completions', body: '{"echo":true}', field: undefined },
    { api: 'completions', body: '{"logprobs":1}', field: undefined },
    { api: 'completions', body: '{"echo":true,"logprobs":1}', field: 'echo' },
    { api: 'completions', body: '{"echo":true,"logprobs":0}', field: 'echo' },
    { api: 'completions', body: '{"echo":true,"logprobs":null}', field: undefined },
    { api: 'completions', body: '{"echo":false,"logprobs":1}', field: undefined },
    { api: 'generate', body: '{"prompt_logprobs":1}', field: undefined },
    { api: 'generate', body: '{"sampling_params":[]}', field: undefined },
    {
      api: 'generate',
      body: '{"sampling_params":{"prompt_logprobs":1}}',
      field: 'sampling_params.prompt_logprobs',
    },
    { api: 'responses', body: '{"prompt_logprobs":1}', field: undefined },
  ])('in $body on $api is $field', ({ api, body, field }) => {
    expect(promptLogprobsField(requestContext({ api, body }))).toBe(field);
  });
});
