import { beforeAll, describe, expect, it } from '@jest/globals';

import { checkLength, encodePrompt, truncateIds } from './prompt-tokens.ts';
import { RenderWorkers } from './render-workers.ts';
import { type BosPolicy, Tokenizer } from './tokenizer/tokenizer.ts';

/** Words `a` to `c` are 1 to 3; every text is put between `<s>` (0) and `</s>` (5). */
const definition = {
  version: '1.0',
  added_tokens: [],
  normalizer: null,
  pre_tokenizer: { type: 'Whitespace' },
  post_processor: {
    type: 'TemplateProcessing',
    single: [
      { SpecialToken: { id: '<s>', type_id: 0 } },
      { Sequence: { id: 'A', type_id: 0 } },
      { SpecialToken: { id: '</s>', type_id: 0 } },
    ],
    pair: [{ Sequence: { id: 'A', type_id: 0 } }, { Sequence: { id: 'B', type_id: 1 } }],
    special_tokens: {
      '<s>': { id: '<s>', ids: [0], tokens: ['<s>'] },
      '</s>': { id: '</s>', ids: [5], tokens: ['</s>'] },
    },
  },
  decoder: null,
  model: {
    type: 'WordLevel',
    vocab: { '<s>': 0, a: 1, b: 2, c: 3, '[UNK]': 4, '</s>': 5 },
    unk_token: '[UNK]',
  },
};

let tokenizer: Tokenizer;

beforeAll(async () => {
  tokenizer = await Tokenizer.load(JSON.stringify(definition), new RenderWorkers());
});

describe('encodePrompt', () => {
  it.each([
    { tokens: 9, keeps: 'last', special: true, ids: [0, 1, 2, 3, 5] },
    { tokens: 4, keeps: 'last', special: true, ids: [0, 2, 3, 5] },
    { tokens: 3, keeps: 'first', special: true, ids: [0, 1, 5] },
    { tokens: 1, keeps: 'last', special: true, ids: [0, 5] },
    { tokens: 2, keeps: 'last', special: false, ids: [2, 3] },
    { tokens: 2, keeps: 'first', special: false, ids: [1, 2] },
  ] as const)(
    'keeps the $keeps $tokens of a text and its special tokens ($special)',
    async ({ tokens, keeps, special, ids }) => {
      const encoded = await encodePrompt(tokenizer, 'a b c', {
        addSpecialTokens: special,
        withOffsets: true,
        truncation: { tokens, keeps },
        maxModelLen: 100,
        maxCharactersPerToken: 16,
      });
      expect([...encoded.ids]).toEqual(ids);
      expect(encoded.offsets).toHaveLength(ids.length);
    },
  );

  it('refuses a text that cannot fit without tokenizing it', async () => {
    const request = {
      addSpecialTokens: true,
      withOffsets: false,
      truncation: undefined,
      maxCharactersPerToken: 16,
    };
    await expect(
      encodePrompt(tokenizer, 'a'.repeat(33), { ...request, maxModelLen: 2 }),
    ).rejects.toMatchObject({ status: 400, param: 'input_tokens' });
  });

  it('refuses a lone surrogate', async () => {
    const request = {
      addSpecialTokens: true,
      withOffsets: false,
      truncation: undefined,
      maxCharactersPerToken: 16,
    };
    await expect(
      encodePrompt(tokenizer, 'a\ud800', { ...request, maxModelLen: 9 }),
    ).rejects.toMatchObject({ status: 400 });
  });
});

describe('the token of the beginning', () => {
  const load = (bos: BosPolicy, bosToken = '</s>'): Promise<Tokenizer> =>
    Tokenizer.load(JSON.stringify(tagged), new RenderWorkers(), { bos, bosToken });
  /** `<s>` and `</s>` are tokens in texts too. */
  const tagged = {
    ...definition,
    added_tokens: ['<s>', '</s>'].map((content) => ({
      id: content === '<s>' ? 0 : 5,
      content,
      single_word: false,
      lstrip: false,
      rstrip: false,
      normalized: false,
      special: true,
    })),
  };

  it.each([
    { bos: 'auto', token: '<s>', special: true, ids: [0, 1, 5] },
    { bos: 'always', token: '<s>', special: true, ids: [0, 1, 5] },
    { bos: 'always', token: '</s>', special: true, ids: [5, 0, 1, 5] },
    { bos: 'always', token: '</s>', special: false, ids: [1] },
    { bos: 'never', token: '<s>', special: true, ids: [1, 5] },
    { bos: 'never', token: '</s>', special: true, ids: [0, 1, 5] },
  ] as const)(
    'is $token $bos with special tokens ($special)',
    async ({ bos, token, special, ids }) => {
      const own = await load(bos, token);
      const options = { addSpecialTokens: special, withOffsets: true };
      const encoded = await own.encode('a', options);
      expect([...encoded.ids]).toEqual(ids);
      expect(encoded.offsets).toHaveLength(ids.length);
    },
  );

  it('has to be one token', async () => {
    await expect(load('always', 'a b')).rejects.toThrow(/bos: always/);
  });
});

describe('ids of a request', () => {
  it('are truncated on either side', () => {
    const ids = Uint32Array.of(1, 2, 3);
    expect([...truncateIds(ids, { tokens: 2, keeps: 'last' })]).toEqual([2, 3]);
    expect([...truncateIds(ids, { tokens: 2, keeps: 'first' })]).toEqual([1, 2]);
    expect(truncateIds(ids, undefined)).toBe(ids);
  });

  it('must be some, and fit the context', () => {
    expect(() => {
      checkLength(new Uint32Array(), 2);
    }).toThrow('No token_ids rendered');
    expect(() => {
      checkLength(Uint32Array.of(1, 2, 3), 2);
    }).toThrow(/at least 3 input tokens/);
  });
});
