import { describe, expect, it } from '@jest/globals';
import { readUsage } from './usage.ts';

const read = (text: string) => readUsage(Buffer.from(text));
const usage = '{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10}';
const expected = { promptTokens: 7, completionTokens: 3, cachedTokens: undefined };

describe('readUsage', () => {
  it.each([
    {
      name: 'an object',
      text: `{"choices":[{"text":"x"}],"usage":${usage},"kv_transfer_params":null}`,
      expected,
    },
    {
      name: 'C07: the last event with empty choices',
      text:
        'data: {"choices":[{"delta":{"content":"x"}}],"usage":null}\n\n' +
        'data: {"choices":[],"usage":{"prompt_tokens":70,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":64}}}\n\n' +
        'data: [DONE]\n\n',
      expected: { promptTokens: 70, completionTokens: 5, cachedTokens: 64 },
    },
    {
      name: 'C07: usage on an event with a choice',
      text: `data: {"choices":[{"delta":{"content":"x"}}],"usage":${usage}}\n\ndata: [DONE]\n\n`,
      expected,
    },
    {
      name: 'the last one where every event has one',
      text: `data: {"usage":{"completion_tokens":1}}\n\ndata: {"usage":${usage}}\n\n`,
      expected,
    },
    {
      name: 'an earlier one when the last is null',
      text: `data: {"usage":${usage}}\n\ndata: {"usage":null}\n\n`,
      expected,
    },
    {
      name: 'the names of responses',
      text: '{"usage":{"input_tokens":2,"input_tokens_details":{"cached_tokens":1},"output_tokens":4}}',
      expected: { promptTokens: 2, completionTokens: 4, cachedTokens: 1 },
    },
    {
      name: 'C14: an object beside NaN and -Infinity',
      text: `{"choices":[{"logprobs":{"token_logprobs":[-Infinity,NaN]}}],"usage":${usage}}`,
      expected,
    },
    { name: 'spaces and lines', text: `{"usage" :\r\n\t ${usage}}`, expected },
    {
      name: 'braces and quotes inside texts',
      text: '{"usage":{"note":"}\\"}","completion_tokens":3}}',
      expected: { promptTokens: undefined, completionTokens: 3, cachedTokens: undefined },
    },
    {
      name: 'numbers that are no counts as unknown',
      text: '{"usage":{"prompt_tokens":-1,"completion_tokens":"3","prompt_tokens_details":null}}',
      expected: { promptTokens: undefined, completionTokens: undefined, cachedTokens: undefined },
    },
    { name: 'nothing as nothing', text: '', expected: undefined },
    { name: 'no usage as nothing', text: '{"choices":[]}', expected: undefined },
    { name: 'null as nothing', text: '{"usage":null}', expected: undefined },
    {
      name: 'a text of the model as nothing',
      text: JSON.stringify({ text: `"usage":${usage}` }),
      expected: undefined,
    },
    { name: 'the value "usage" as nothing', text: '{"kind":"usage"}', expected: undefined },
    {
      name: 'C14: NaN inside as unreadable',
      text: '{"usage":{"prompt_tokens":NaN}}',
      expected: null,
    },
    { name: 'a cut object as unreadable', text: '{"usage":{"prompt_tokens":1', expected: null },
  ])('reads $name', ({ text, expected: wanted }) => {
    expect(read(text)).toEqual(wanted);
  });
});
