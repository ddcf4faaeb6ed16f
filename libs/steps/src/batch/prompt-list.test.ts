import { JsonDocument } from '@llm-d/json-document';
import { BadRequestError } from '@llm-d/pipeline';
import { describe, expect, it } from '@jest/globals';
import { promptList } from './prompt-list.ts';

const read = (prompt: string, limit = 4): string[] | undefined => {
  const body = JsonDocument.parse(Buffer.from(`{"model":"m"${prompt && `,"prompt":${prompt}`}}`));
  return promptList(body, limit)?.map((span) => Buffer.from(span.bytes).toString());
};

describe('the prompts of a completions request (C36)', () => {
  it.each([
    { name: 'no prompt', prompt: '' },
    { name: 'null', prompt: 'null' },
    { name: 'a number', prompt: '5' },
    { name: 'a text', prompt: '"hi"' },
    { name: 'an empty text', prompt: '""' },
    { name: 'token ids', prompt: '[1,2,3]' },
    { name: 'token ids with something else among them', prompt: '[1,"a"]' },
    { name: 'an empty list', prompt: '[]' },
  ])('are no batch: $name', ({ prompt }) => {
    expect(read(prompt)).toBeUndefined();
  });

  it.each([
    { name: 'texts', prompt: '["a", "\\u0062"]', prompts: ['"a"', '"\\u0062"'] },
    {
      name: 'lists of ids',
      prompt: '[[1, 2],[9007199254740991]]',
      prompts: ['[1, 2]', '[9007199254740991]'],
    },
    { name: 'one text', prompt: '["a"]', prompts: ['"a"'] },
    { name: 'one list of ids', prompt: '[ [1] ]', prompts: ['[1]'] },
    {
      name: 'as many as the limit',
      prompt: '["a","b","c","d"]',
      prompts: ['"a"', '"b"', '"c"', '"d"'],
    },
  ])('are taken as they stand: $name', ({ prompt, prompts }) => {
    expect(read(prompt)).toEqual(prompts);
  });

  it.each([
    { prompt: '["a",1]', message: 'prompt[1] must be a text, as prompt[0] is' },
    { prompt: '["a",["b"]]', message: 'prompt[1] must be a text, as prompt[0] is' },
    { prompt: '["a",null]', message: 'prompt[1] must be a text, as prompt[0] is' },
    { prompt: '["a",""]', message: 'prompt[1] must not be an empty text' },
    { prompt: '[""]', message: 'prompt[0] must not be an empty text' },
    { prompt: '[[1],"a"]', message: 'prompt[1] must be a list of token ids' },
    { prompt: '[[1],2]', message: 'prompt[1] must be a list of token ids' },
    { prompt: '[[1],null]', message: 'prompt[1] must be a list of token ids' },
    { prompt: '[[1],[]]', message: 'prompt[1] must hold at least one token id' },
    { prompt: '[[ ]]', message: 'prompt[0] must hold at least one token id' },
    { prompt: '[[1],[2,-1]]', message: 'prompt[1][1] must be a non-negative integer' },
    { prompt: '[[1],[1.5]]', message: 'prompt[1][0] must be a non-negative integer' },
    { prompt: '[[1],[2,"a"]]', message: 'prompt[1][1] must be a non-negative integer' },
    { prompt: '[[1],[[2]]]', message: 'prompt[1][0] must be a non-negative integer' },
    { prompt: '[[9007199254740992]]', message: 'prompt[0][0] must be a non-negative integer' },
    { prompt: '[null]', message: 'prompt[0] must be a text, a token id or a list of token ids' },
    { prompt: '[true]', message: 'prompt[0] must be a text, a token id or a list of token ids' },
    { prompt: '[{}]', message: 'prompt[0] must be a text, a token id or a list of token ids' },
  ])('are refused with the place: $prompt', ({ prompt, message }) => {
    const [param] = message.split(' ');
    expect(() => read(prompt)).toThrow(expect.objectContaining({ message, param, status: 400 }));
  });

  it('are refused with both numbers beyond the limit', () => {
    const refuse = (): unknown => read('["a","b","c","d",null]');
    expect(refuse).toThrow(BadRequestError);
    expect(refuse).toThrow('the request has 5 prompts, the limit is 4');
    expect(() => read(`["a"${',1'.repeat(200_000)}]`)).toThrow('at least 100000 prompts');
  });
});
