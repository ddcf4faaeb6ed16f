import { describe, expect, it } from '@jest/globals';
import { opensGate, prefersIfAvailable } from './gate.ts';
import { type Candidate, pickPod } from './picker.ts';
import { PrefixIndex } from './prefix-index.ts';
import { chain, promptBlocks } from './prompt-blocks.ts';
import { seededRandom } from './random.ts';
import { acceptsProfile } from './roles.ts';

const pod = (name: string, values: Partial<Candidate> = {}): Candidate => ({
  name,
  activeRequests: 0,
  inflightTokens: 0,
  matchedBlocks: 0,
  ...values,
});
const first = (): number => 0;

describe('pickPod', () => {
  it('answers undefined without candidates', () =>
    expect(pickPod('decode', [], 4, first)).toBeUndefined());

  it.each([
    {
      name: 'decode takes the idle pod',
      profile: 'decode' as const,
      pods: [pod('a', { activeRequests: 2 }), pod('b')],
      blocks: 0,
      expected: 'b',
    },
    {
      name: 'prefill takes the pod with fewer tokens in flight, not fewer requests',
      profile: 'prefill' as const,
      pods: [
        pod('a', { inflightTokens: 9000 }),
        pod('b', { activeRequests: 5, inflightTokens: 10 }),
      ],
      blocks: 0,
      expected: 'b',
    },
    {
      name: 'a busy pod that holds the prompt is taken',
      profile: 'decode' as const,
      pods: [pod('a'), pod('b', { activeRequests: 3, matchedBlocks: 8 })],
      blocks: 10,
      expected: 'b',
    },
    {
      name: 'a pod that holds less than four fifths is not sticky',
      profile: 'decode' as const,
      pods: [pod('a'), pod('b', { activeRequests: 3, matchedBlocks: 7 })],
      blocks: 10,
      expected: 'a',
    },
    {
      name: 'a holder whose queue costs more than 18 s is left',
      profile: 'prefill' as const,
      pods: [pod('a'), pod('b', { inflightTokens: 300_000, matchedBlocks: 10 })],
      blocks: 10,
      expected: 'a',
    },
  ])('$name', ({ profile, pods, blocks, expected }) =>
    expect(pickPod(profile, pods, blocks, first)?.pod.name).toBe(expected),
  );

  it('spreads equals by the dice, the same way for the same seed', () => {
    const pods = [pod('a'), pod('b')];
    const run = (seed: number): string[] => {
      const random = seededRandom(seed);
      return Array.from({ length: 50 }, () => pickPod('decode', pods, 0, random)?.pod.name ?? '');
    };
    expect(run(1)).toEqual(run(1));
    expect(new Set(run(1))).toEqual(new Set(['a', 'b']));
  });
});

describe('the prefix index', () => {
  const ids = (count: number, from = 0): number[] =>
    Array.from({ length: count }, (_, index) => from + index);

  it('finds the longest run of leading blocks, per pod', () => {
    const index = new PrefixIndex(100);
    index.record('a', chain(ids(200), 64, 'm'));
    expect(index.match('a', chain([...ids(130), 9, 9], 64, 'm'))).toEqual({
      blocks: 2,
      isWhole: false,
    });
    expect(index.match('b', chain(ids(200), 64, 'm')).blocks).toBe(0);
    expect(index.match('a', chain(ids(200), 64, 'other')).blocks).toBe(0);
  });

  it('knows a short prompt only when it comes again exactly', () => {
    const index = new PrefixIndex(100);
    index.record('a', chain(ids(5), 64, 'm'));
    expect(index.match('a', chain(ids(5), 64, 'm')).isWhole).toBe(true);
    expect(index.match('a', chain(ids(6), 64, 'm')).isWhole).toBe(false);
  });

  it('forgets the oldest blocks over its capacity', () => {
    const index = new PrefixIndex(2);
    index.record('a', chain(ids(128), 64, 'm'));
    index.record('a', chain(ids(128, 1000), 64, 'm'));
    expect(index.match('a', chain(ids(128), 64, 'm')).blocks).toBe(0);
  });

  it('sees the same ids under generate and completions, another image under chat', () => {
    const token = promptBlocks('/inference/v1/generate', { model: 'm', token_ids: ids(70) }, 64);
    expect(promptBlocks('/v1/completions', { model: 'm', prompt: ids(70) }, 64)).toEqual(token);
    const chat = (url: string): unknown => ({
      model: 'm',
      messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url } }] }],
    });
    expect(promptBlocks('/v1/chat/completions', chat('a'), 64)).not.toEqual(
      promptBlocks('/v1/chat/completions', chat('b'), 64),
    );
  });

  it('sees the same image with and without the name that a coordinator gives it', () => {
    const chat = (name: object): unknown => ({
      model: 'm',
      messages: [
        { role: 'user', content: [{ type: 'image_url', image_url: { url: 'a' }, ...name }] },
      ],
    });
    expect(promptBlocks('/v1/chat/completions', chat({ uuid: 'h' }), 64)).toEqual(
      promptBlocks('/v1/chat/completions', chat({}), 64),
    );
  });

  it('a response has its text and its images, without the names that a coordinator stamps', () => {
    const response = (text: string, more: object) => ({
      instructions: 'Be brief.',
      input: [
        { role: 'user', content: [{ type: 'input_text', text }] },
        { type: 'function_call', name: 'f', call_id: 'c', arguments: '{}' },
        {
          type: 'function_call_output',
          output: [{ type: 'input_image', image_url: 'x', ...more }],
        },
      ],
    });
    const blocks = (body: unknown) => promptBlocks('/v1/responses', body, 4);
    expect(blocks(response('a', { uuid: 'h' }))).toEqual(blocks(response('a', {})));
    expect(blocks(response('b', {}))).not.toEqual(blocks(response('a', {})));
    expect(blocks(response('a', { detail: 'low' }))).not.toEqual(blocks(response('a', {})));
    expect(blocks({ input: 'one two three' })).toMatchObject({ tokens: 3 });
    expect(() => blocks({ input: 5 })).toThrow('input is required');
  });

  it('prefers the ids a coordinator sends beside the messages', () =>
    expect(
      promptBlocks(
        '/v1/chat/completions',
        { model: 'm', messages: [], tokens: { token_ids: ids(70) } },
        64,
      ).tokens,
    ).toBe(70));
});

describe('the gate', () => {
  const prompt = chain(
    Array.from({ length: 640 }, (_, index) => index),
    64,
    'm',
  );
  const rules = { noncachedTokens: 256, promptTokens: 128, blockSize: 64 };
  it.each([
    { mode: 'decider' as const, blocks: 0, open: false },
    { mode: 'decider' as const, blocks: 6, open: false },
    { mode: 'decider' as const, blocks: 7, open: true },
    { mode: 'legacy' as const, blocks: 0, open: false },
    { mode: 'legacy' as const, blocks: 1, open: true },
    { mode: 'always412' as const, blocks: 10, open: false },
    { mode: 'off' as const, blocks: 0, open: true },
  ])('$mode with $blocks of 10 blocks cached: open is $open', ({ mode, blocks, open }) =>
    expect(opensGate({ ...rules, mode }, prompt, { blocks, isWhole: false })).toBe(open),
  );

  it('decider serves a prompt shorter than its threshold', () =>
    expect(
      opensGate({ ...rules, mode: 'decider' }, chain([1, 2], 64, 'm'), {
        blocks: 0,
        isWhole: false,
      }),
    ).toBe(true));

  it('legacy counts a partial last block', () =>
    expect(
      opensGate({ ...rules, mode: 'legacy' }, chain([1, 2], 64, 'm'), { blocks: 0, isWhole: true }),
    ).toBe(true));

  it.each([
    { prefer: 'if-available', asks: true },
    { prefer: 'respond-async, IF-AVAILABLE; wait=1', asks: true },
    { prefer: 'respond-async', asks: false },
    { prefer: undefined, asks: false },
  ])('Prefer: $prefer', ({ prefer, asks }) => expect(prefersIfAvailable(prefer)).toBe(asks));
});

it.each([
  { role: 'encode-prefill', profile: 'prefill' as const, accepted: true },
  { role: 'both', profile: 'decode' as const, accepted: true },
  { role: 'both', profile: 'encode' as const, accepted: false },
  { role: 'encode-prefill-decode', profile: 'encode' as const, accepted: true },
  { role: '', profile: 'decode' as const, accepted: false },
])('a pod labelled $role serves $profile: $accepted', ({ role, profile, accepted }) =>
  expect(acceptsProfile(role === '' ? {} : { 'llm-d.ai/role': role }, profile)).toBe(accepted),
);
