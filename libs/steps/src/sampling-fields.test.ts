import { type Api } from '@llm-d/gateway';
import { MemorySink, requestContext } from '@llm-d/pipeline/testing';
import { type Answer } from '@llm-d/testing';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { answerFile, Rig } from './testing.ts';

let rig: Rig;
beforeAll(async () => {
  rig = await Rig.open();
  rig.gateway.play(({ headers }): Answer => {
    switch (headers['epp-profile']?.[0]) {
      case 'encode':
        return answerFile('encode.0.json');
      case 'prefill':
        return answerFile('prefill.kv-nixl.json');
      default:
        return answerFile('decode.chat.json');
    }
  });
});
afterAll(() => rig.close());

/** Runs a body through all steps but render; gives the phases that were asked, and the bodies by phase. */
async function run(api: Api, body: string, kv: string) {
  const first = rig.gateway.calls.length;
  const pair = { kv_connector: kv, ec_connector: 'ec-nixl' };
  const pipeline = rig.pipeline(
    ['replace-media-urls', 'encode', 'prefill', 'decode'].map((type) => ({
      type,
      ...(type === 'replace-media-urls'
        ? {}
        : { params: type === 'decode' ? { kv_connector: kv } : pair }),
    })),
  );
  await pipeline.run(requestContext({ api, body, sink: new MemorySink() }));
  const legs = rig.gateway.calls.slice(first);
  const phases = legs.map(({ headers }) => headers['epp-profile']?.[0]);
  const sent = new Map(legs.map((leg, i) => [phases[i], leg.body.toString()]));
  return { phases, prefill: sent.get('prefill') ?? '', decode: sent.get('decode') ?? '' };
}

const image =
  '{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo="}}]}';
const chat = (fields: string): string => `{"model":"m","messages":[${image}],${fields}}`;
const completion = (fields: string): string => `{"model":"m","prompt":"x",${fields}}`;
const generate = (fields: string): string =>
  `{"model":"m","token_ids":[1,2],"sampling_params":{${fields}}}`;
const serial = ['kv-nixl', 'kv-shared-storage', 'kv-none'];

describe('a request that cannot be divided (C35)', () => {
  it.each<{ api: Api; body: string; connectors: string[] }>([
    { api: 'chat', body: chat('"n":3'), connectors: ['kv-nixl'] },
    { api: 'completions', body: completion('"best_of":4'), connectors: ['kv-nixl'] },
    { api: 'generate', body: generate('"n":2'), connectors: ['kv-nixl'] },
    { api: 'chat', body: chat('"prompt_logprobs":2'), connectors: serial },
    { api: 'completions', body: completion('"prompt_logprobs":0'), connectors: serial },
    { api: 'completions', body: completion('"echo":true,"logprobs":1'), connectors: serial },
    { api: 'generate', body: generate('"prompt_logprobs":1'), connectors: serial },
  ])('goes whole to decode alone: $body', async ({ api, body, connectors }) => {
    for (const kv of connectors) {
      const { phases, decode } = await run(api, body, kv);
      expect(phases).toEqual(['decode']);
      expect(decode).toBe(body);
    }
  });
});

describe('a field of sampling that can be divided', () => {
  it.each([
    '"logit_bias":{"50256":-100}',
    '"logprobs":true,"top_logprobs":5',
    '"seed":9007199254740993',
    '"response_format":{"type":"json_object"}',
    '"prompt_logprobs":null',
  ])('reaches decode unchanged beside the hand-off: %s', async (fields) => {
    for (const kv of serial) {
      const { phases, decode } = await run('chat', chat(fields), kv);
      expect(phases).toEqual(['encode', 'prefill', 'decode']);
      expect(decode).toContain(`,${fields}`);
      expect(decode.includes('"kv_transfer_params":{')).toBe(kv !== 'kv-none');
    }
  });

  it.each(['kv-shared-storage', 'kv-none'])(
    'is one sequence for prefill and all of them for decode, with %s',
    async (kv) => {
      const { phases, prefill, decode } = await run('chat', chat('"n":3,"best_of":4'), kv);
      expect(phases).toEqual(['encode', 'prefill', 'decode']);
      expect(JSON.parse(prefill)).toMatchObject({ n: 1, max_tokens: 1 });
      expect(prefill).not.toContain('best_of');
      expect(decode).toContain(',"n":3,"best_of":4');
    },
  );

  it.each(['echo', 'logprobs'])('reaches decode on completions when %s is alone', async (field) => {
    const fields = `"${field}":${field === 'echo' ? 'true' : '1'}`;
    const { phases, decode } = await run('completions', completion(fields), 'kv-nixl');
    expect(phases).toEqual(['prefill', 'decode']);
    expect(decode).toContain(`,${fields}`);
  });
});
