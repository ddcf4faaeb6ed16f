import { type Api } from '@llm-d/gateway';
import { JsonDocument } from '@llm-d/json-document';
import { describe, expect, it } from '@jest/globals';
import { singleTokenCap } from './single-token-cap.ts';

const capped = (api: Api, body: object): unknown =>
  JSON.parse(
    JsonDocument.parse(Buffer.from(JSON.stringify(body)))
      .with(singleTokenCap[api])
      .toString(),
  );

const asked = {
  max_tokens: 200,
  min_tokens: 50,
  stream: true,
  stream_options: { include_usage: true },
  temperature: 0.2,
};

describe('the single-token cap', () => {
  it('of chat sets both limits, since a worker takes max_completion_tokens first', () => {
    const both = { max_tokens: 1, max_completion_tokens: 1, stream: false };
    expect(capped('chat', { ...asked, max_completion_tokens: 100 })).toEqual({
      ...both,
      temperature: 0.2,
    });
    expect(capped('chat', {})).toEqual(both);
  });

  it('of completions knows no max_completion_tokens', () => {
    expect(capped('completions', asked)).toEqual({
      max_tokens: 1,
      stream: false,
      temperature: 0.2,
    });
  });

  it('of responses keeps no answer', () => {
    const body = { max_output_tokens: 800, min_tokens: 50, stream: true, stream_options: {} };
    expect(capped('responses', { ...body, store: true, temperature: 0.2 })).toEqual({
      max_output_tokens: 1,
      stream: false,
      store: false,
      temperature: 0.2,
    });
  });

  it('of generate stands below sampling_params', () => {
    expect(capped('generate', { stream: true, stream_options: {} })).toEqual({
      sampling_params: { max_tokens: 1 },
      stream: false,
    });
  });
});
