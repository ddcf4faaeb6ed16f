import { describe, expect, it } from '@jest/globals';
import { lastWords, modeText, planAnswer, reportText, splitWords } from './answer-text.ts';
import { type Prompt } from './prompt.ts';

const prompt: Prompt = { tokenIds: new Uint32Array(87), text: undefined, images: [] };
const image = {
  hash: '3fa9c0de' + '0'.repeat(56),
  offset: 1,
  length: 300,
  gridThw: [1, 2, 600] as [number, number, number],
  isEncodable: true,
};

describe('the report', () => {
  it('names tokens, images, where the KV came from and the last words', () =>
    expect(
      reportText(
        { ...prompt, images: [{ ...image, size: { width: 640, height: 480 } }] },
        { source: 'external', pod: 'prefill-1', blocks: 6 },
        '<|im_start|>user\nWhat is this?<|im_end|>\n<|im_start|>assistant\n',
      ),
    ).toBe(
      'I received 87 prompt tokens and 1 image: 640x480, hash 3fa9c0de…; ' +
        "KV pulled from prefill-1 (6 blocks); your last words: 'What is this?'.",
    ));

  it('without pixels it tells the placeholder tokens', () =>
    expect(reportText({ ...prompt, images: [{ ...image, size: undefined }] }, undefined, '')).toBe(
      'I received 87 prompt tokens and 1 image: 300 tokens, hash 3fa9c0de….',
    ));
});

describe('lastWords', () => {
  it.each([
    { name: 'plain text', text: 'one two', words: 'one two' },
    {
      name: 'the last turn of the user, not what follows it',
      text: '<|im_start|>user\nfirst<|im_end|>\n<|im_start|>assistant\nyes<|im_end|>\n<|im_start|>user\nsecond one<|im_end|>\n<|im_start|>assistant\n',
      words: 'second one',
    },
    {
      name: 'a tail that begins inside a turn, among image placeholders',
      text: '<|image_pad|><|image_pad|><|vision_end|>What is it?<|im_end|>\n<|im_start|>assistant\n',
      words: 'What is it?',
    },
    {
      name: 'at most twelve words',
      text: 'a b c d e f g h i j k l m n',
      words: '… c d e f g h i j k l m n',
    },
  ])('$name', ({ text, words }) => expect(lastWords(text)).toBe(words));
});

describe('planAnswer', () => {
  interface Limits {
    maxTokens?: number;
    minTokens?: number;
    stop?: string[];
  }
  const plan = async (text: string, limits: Limits, room = 100): Promise<[string, string]> => {
    const input = { maxTokens: undefined, minTokens: 0, ignoreEos: false, stop: [], ...limits };
    const { tokens, finishReason } = await planAnswer(text, input, room, splitWords);
    return [tokens.map((token) => token.text).join(''), finishReason];
  };

  it.each<{ name: string; input: Limits; expected: [string, string] }>([
    { name: 'whole', input: {}, expected: ['a b c', 'stop'] },
    { name: 'cut by max_tokens', input: { maxTokens: 2 }, expected: ['a b', 'length'] },
    { name: 'exactly max_tokens', input: { maxTokens: 3 }, expected: ['a b c', 'length'] },
    { name: 'stretched by min_tokens', input: { minTokens: 5 }, expected: ['a b c a b', 'stop'] },
    { name: 'ended by a stop string', input: { stop: ['zz', ' c'] }, expected: ['a b', 'stop'] },
    {
      name: 'cut before the stop string',
      input: { stop: [' c'], maxTokens: 1 },
      expected: ['a', 'length'],
    },
  ])('$name', async ({ input, expected }) => expect(await plan('a b c', input)).toEqual(expected));

  it('never passes the context length', async () =>
    expect(await plan('a b c', { maxTokens: 50 }, 1)).toEqual(['a', 'length']));
});

it('mode random says the same for the same seed', () => {
  const tuning = { mode: 'random' as const, script: '', countTokens: 5, seed: 3 };
  expect(modeText(tuning, '', '', 5)).toBe(modeText(tuning, '', '', 5));
  expect(modeText(tuning, '', '', 5)).not.toBe(modeText({ ...tuning, seed: 4 }, '', '', 5));
});
