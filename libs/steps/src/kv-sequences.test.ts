import { type Api } from '@llm-d/gateway';
import { requestContext } from '@llm-d/pipeline/testing';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { isServedByDecodeAlone, sequenceCount } from './kv-sequences.ts';
import { Rig } from './testing.ts';

let rig: Rig;
beforeAll(async () => {
  rig = await Rig.open();
});
afterAll(() => rig.close());

describe('sequenceCount', () => {
  it.each<{ api: Api; body: string; count: number }>([
    { api: 'chat', body: '{}', count: 1 },
    { api: 'chat', body: '{"n":2}', count: 2 },
    { api: 'chat', body: '{"n":null}', count: 1 },
    { api: 'chat', body: '{"n":"2"}', count: 2 },
    { api: 'chat', body: '{"n":"two"}', count: 1 },
    { api: 'chat', body: '{"n":[2]}', count: 1 },
    { api: 'completions', body: '{"best_of":3}', count: 3 },
    { api: 'completions', body: '{"n":2,"best_of":1}', count: 2 },
    { api: 'generate', body: '{"n":2}', count: 1 },
    { api: 'generate', body: '{"sampling_params":{"n":2}}', count: 2 },
    { api: 'generate', body: '{"sampling_params":[]}', count: 1 },
    { api: 'responses', body: '{"n":2}', count: 1 },
  ])('of $body on $api is $count', ({ api, body, count }) => {
    expect(sequenceCount(requestContext({ api, body }))).toBe(count);
  });
});

describe('isServedByDecodeAlone', () => {
  const two = requestContext({ body: '{"n":2}' });
  it.each([
    { connector: 'kv-nixl', kvMultiSequence: 'local', expected: true },
    { connector: 'kv-nixl', kvMultiSequence: 'transfer', expected: false },
    { connector: 'kv-shared-storage', kvMultiSequence: 'local', expected: false },
    { connector: undefined, kvMultiSequence: 'local', expected: false },
  ] as const)('is $expected for two sequences with $connector and $kvMultiSequence', (row) => {
    const isAlone = isServedByDecodeAlone(
      row.connector,
      rig.dependencies({ kvMultiSequence: row.kvMultiSequence }),
    );
    expect(isAlone(two)).toBe(row.expected);
    expect(isAlone(requestContext({ body: '{"n":1}' }))).toBe(false);
  });

  it.each(['kv-nixl', 'kv-shared-storage', 'kv-none'])(
    'is true for log probabilities of the prompt with %s, whatever is set for sequences',
    (connector) => {
      const isAlone = isServedByDecodeAlone(
        connector,
        rig.dependencies({ kvMultiSequence: 'transfer' }),
      );
      expect(isAlone(requestContext({ body: '{"prompt_logprobs":2}' }))).toBe(true);
      expect(isAlone(requestContext({ body: '{"logprobs":true,"top_logprobs":5}' }))).toBe(false);
    },
  );

  it('refuses where decode cannot compute a prompt, naming the field', () => {
    const isAlone = isServedByDecodeAlone('kv-sglang', rig.dependencies());
    expect(() => isAlone(two)).toThrow('n is not served by this deployment');
    const generate = requestContext({ api: 'generate', body: '{"sampling_params":{"n":3}}' });
    expect(() => isAlone(generate)).toThrow('sampling_params.n is not served by this deployment');
    expect(isAlone(requestContext({ body: '{"n":1}' }))).toBe(false);
  });
});
