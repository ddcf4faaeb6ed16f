import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { demoPhoto, runDemo, toDataUri } from '@llm-d/local-stack';
import { drawImage, until } from '@llm-d/soak';
import { ask, eventsOf } from './ask.ts';
import { expectedReport, matrixRequest, maxTokens, minTokens, paths } from './matrix-cases.ts';
import { saidIn } from './openai.ts';
import { detokenize } from './render.ts';
import { startTestStack, type TestStack } from './test-stack.ts';

/** Blocks that decode fetches: all, or the whole ones without the last token (engine-verified.md 5). */
const pairs = [
  { kv: 'kv-nixl', ec: 'ec-nixl', blocksOf: (tokens: number) => Math.ceil(tokens / 16) },
  {
    kv: 'kv-shared-storage',
    ec: 'ec-shared-storage',
    blocksOf: (tokens: number) => Math.floor((tokens - 2) / 16),
  },
] as const;

const inputs = [
  { api: 'chat', input: 'text', images: [] },
  { api: 'chat', input: 'one image', images: [0] },
  { api: 'chat', input: 'three images of which two are equal', images: [0, 1, 0] },
  { api: 'completions', input: 'text', images: [] },
  { api: 'generate', input: 'tokens of text', images: [] },
  { api: 'generate', input: 'tokens and features of one image', images: [0] },
  { api: 'generate', input: 'tokens and features of three images', images: [0, 1, 0] },
] as const;

const cases = inputs.flatMap((input) =>
  (['OpenAI', 'tokens-in'] as const).flatMap((format) =>
    [false, true].map((isStreamed) => ({
      ...input,
      format,
      isStreamed,
      delivery: isStreamed ? 'streamed' : 'whole',
    })),
  ),
);

describe.each(pairs)('with $kv and $ec', ({ kv, ec, blocksOf }) => {
  let stack: TestStack;
  let urls: { OpenAI: string; 'tokens-in': string };
  let count = 0;

  beforeAll(async () => {
    stack = await startTestStack({ kvConnector: kv, ecConnector: ec });
    const tokensIn = await stack.startCoordinator('tokens-in', { usesOpenAiFormat: false });
    urls = { OpenAI: stack.publicUrl, 'tokens-in': tokensIn };
  });

  afterAll(() => stack.stop());

  /** Sends the request of a case with pictures that no other case has. */
  async function send({ format, ...cell }: (typeof cases)[number]) {
    count += 1;
    const id = `matrix-${count}`;
    const pictures = await Promise.all(cell.images.map((at) => drawImage(count * 2 + at)));
    const request = await matrixRequest(cell, id, pictures, stack.renderUrl);
    const earlier = (await stack.legs()).length;
    const answer = await ask(urls[format], { ...request, requestId: id });
    const legs = await until('the decode leg', async () => {
      const later = (await stack.legs()).slice(earlier);
      return later.some(({ profile }) => profile === 'decode') ? later : undefined;
    });
    return { id, request, answer, legs, records: await stack.records(id) };
  }

  it.each(cases)('answers $api with $input, $delivery, over $format legs', async (cell) => {
    const { id, request, answer, legs, records } = await send(cell);
    expect(answer).toMatchObject({ status: 200, isWhole: true });
    expect(answer.headers['x-request-id']).toBe(id);

    // One leg for each distinct image, and every leg on a pod of its role under the one id.
    const hashes = [...new Set(request.images.map(({ hash }) => hash))];
    const encodes = cell.api === 'chat' ? hashes.map(() => 'encode') : [];
    expect(legs.map(({ profile }) => profile)).toEqual([...encodes, 'prefill', 'decode']);
    const synthetic =
      cell.format === 'OpenAI' || cell.api === 'completions' ? cell.api : 'generate';
    for (const { profile, pod, status, path, request_id: legId } of legs) {
      expect(stack.pods.find(({ name }) => name === pod)?.role).toBe(profile);
      expect({ status, legId }).toEqual({ status: 200, legId: id });
      expect(path).toBe(paths[profile === 'decode' ? cell.api : synthetic]);
    }
    expect(records).toHaveLength(legs.length);

    const prefill = records.find(({ role }) => role === 'prefill');
    const decode = records.find(({ role }) => role === 'decode');
    const said = saidIn(answer, cell.isStreamed);
    const kvPulled = {
      pod: legs.find(({ profile }) => profile === 'prefill')?.pod ?? '',
      blocks: blocksOf(request.promptTokens),
    };
    expect(decode?.kv).toEqual({ source: 'external', ...kvPulled });

    // What the client asked for reaches decode alone.
    expect(prefill).toMatchObject({ maxTokens: 1, isStreaming: false });
    expect(decode).toMatchObject({ maxTokens, isStreaming: cell.isStreamed });
    expect(decode?.ecTransferParams).toBeUndefined();
    expect(said.usage).toMatchObject({
      prompt_tokens: request.promptTokens,
      completion_tokens: minTokens,
    });
    expect(said.finishReasons).toEqual(['stop']);

    // Every embedding comes from the pod that made it; of tokens-in requests prefill makes them itself.
    const makers = new Map(
      records.flatMap(({ role, pod, images }) =>
        role === 'encode' ? images.map(({ hash }) => [hash, pod] as const) : [],
      ),
    );
    expect(prefill?.ec).toEqual(
      hashes.map((hash) =>
        cell.api === 'chat'
          ? { hash, source: 'external', peer: makers.get(hash) }
          : { hash, source: 'local' },
      ),
    );

    const text =
      cell.api === 'generate' ? await detokenize(stack.renderUrl, said.tokenIds) : said.text;
    const report = expectedReport(request, kvPulled);
    expect(text.slice(0, report.length)).toBe(report);
    if (cell.isStreamed) {
      expect(eventsOf(answer).at(-1)).toBe('[DONE]');
      // An event for each token, besides those of role and usage.
      expect(eventsOf(answer).length).toBeGreaterThan(minTokens);
    }
  });

  it('passes the demo of npm start: its photo goes through every phase', async () => {
    const question = { prompt: 'What do you see?', imageUrl: await toDataUri(demoPhoto) };
    let said = '';
    const { result } = await runDemo(stack, question, (text) => (said += text));
    expect(result).toEqual({
      ok: true,
      legs: { render: 1, encode: 1, prefill: 1, decode: 1 },
      chunks: expect.any(Number),
      kvPulls: 1,
      ecPulls: 1,
      ms: expect.any(Number),
    });
    expect(said).toMatch(/1 image: 640x480.*your last words: 'What do you see\?'/);
  });

  it('leaves no lease held, no embedding unused, no pod down and nothing computed twice', async () => {
    const states = await stack.states();
    expect(states).toHaveLength(6);
    for (const state of states) {
      expect(state).toMatchObject({
        running: 0,
        waiting: 0,
        leases: { held: 0, expired: 0, released: 0 },
        embeddings: { expiredUnpulled: 0 },
        counters: {
          sim_local_prefill_total: 0,
          sim_role_violation_total: 0,
          sim_uuid_mismatch_total: 0,
          sim_ignored_ec_params_total: 0,
          sim_aborted_total: 0,
          sim_engine_death_total: 0,
        },
      });
      expect(state.deathCause).toBeUndefined();
      expect(state.embeddings.held.filter(({ pulls }) => pulls === 0)).toEqual([]);
    }
  });
});
