import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { type Gateway, type GateMode, type Leg, startGateway } from '@llm-d/gateway-sim';
import { chatOf, drawImage, type TestImage, until } from '@llm-d/soak';
import { ask } from './ask.ts';
import { type Completion, jsonOf } from './openai.ts';
import { startTestStack, type TestStack } from './test-stack.ts';

const chatPath = '/v1/chat/completions';
const gates = ['decider', 'legacy', 'always412', 'off'] as const;
const cascade = ['412 decode', '200 prefill', '200 decode'];
const decodeAlone = ['200 decode'];

let stack: TestStack;
/** Gateways with other gates than the stack's own, in front of the same workers. */
const gateways = new Map<GateMode, Gateway>();
const coordinators = new Map<GateMode, string>();
let count = 0;

beforeAll(async () => {
  stack = await startTestStack({ workers: { encode: 1, prefill: 1, decode: 2 } });
  const endpoints = stack.pods.map(({ name, role, url }) => {
    const { hostname: address, port } = new URL(url);
    return { name, address, port, labels: { 'llm-d.ai/role': role } };
  });
  await Promise.all(
    gates.map(async (gate) => {
      const gateway = await startGateway({ gate, endpoints });
      gateways.set(gate, gateway);
      const url = await stack.startCoordinator(`conditional-${gate}`, {
        gateway: { address: gateway.internalUrl },
        steps: [
          'replace-media-urls',
          'render',
          'conditional-decode',
          'encode',
          'prefill',
          'decode',
        ],
      });
      coordinators.set(gate, url);
    }),
  );
});

afterAll(async () => {
  await stack.stop();
  await Promise.all([...gateways.values()].map((gateway) => gateway.close()));
});

afterEach(() => stack.configure('decode', { conditionalDecode: 'ignore' }));

/** More than the gate lets a worker compute by itself. */
const longText = (): string =>
  `Question ${(count += 1)}: ${'why is the sea blue and the sky grey above the harbour today? '.repeat(30)}`;
const shortText = (): string => `Question ${(count += 1)}: why?`;

/** Asks through a gate and tells which legs it took. */
async function legsOf(gate: GateMode, body: object, path = chatPath) {
  count += 1;
  const requestId = `conditional-${count}`;
  const answer = await ask(coordinators.get(gate) ?? '', { path, requestId, body });
  expect(answer.status).toBe(200);
  expect(jsonOf<Completion>(answer).choices[0]?.finish_reason).toBe('stop');
  const legs = await until('an answered decode leg', () => {
    const seen: Leg[] = gateways.get(gate)?.legs(requestId) ?? [];
    return seen.some(({ profile, status }) => profile === 'decode' && status === 200)
      ? seen
      : undefined;
  });
  return {
    requestId,
    took: legs.map(({ profile, status }) => `${status} ${profile}`),
    servedBy: legs.at(-1)?.pod,
  };
}

describe('conditional decode', () => {
  it.each<{ name: string; path: string; body: (images: TestImage[]) => object; images: number }>([
    { name: 'a chat', path: chatPath, body: () => chatOf(longText()), images: 0 },
    {
      name: 'a chat with a picture',
      path: chatPath,
      body: (images) => chatOf(longText(), { images }),
      images: 1,
    },
    {
      name: 'a completion',
      path: '/v1/completions',
      body: () => ({ model: 'sim/model', prompt: longText(), max_tokens: 200 }),
      images: 0,
    },
    {
      name: 'tokens',
      path: '/inference/v1/generate',
      body: () => ({
        model: 'sim/model',
        token_ids: Array.from({ length: 600 }, (_, i) => 1000 + i),
        sampling_params: {},
      }),
      images: 0,
    },
  ])(
    'runs the cascade for $name first, and serves the same again by one decode leg',
    async ({ path, body, images }) => {
      const pictures = await Promise.all(Array.from({ length: images }, () => drawImage(count)));
      const request = body(pictures);
      const first = await legsOf('decider', request, path);
      const encodes = pictures.map(() => '200 encode');
      expect(first.took).toEqual(['412 decode', ...encodes, '200 prefill', '200 decode']);

      const second = await legsOf('decider', request, path);
      expect(second.took).toEqual(decodeAlone);
      expect(second.servedBy).toBe(first.servedBy);
      const records = await stack.records(second.requestId);
      expect(records).toHaveLength(1);
      expect(records[0]).toMatchObject({ role: 'decode', prefer: 'if-available' });
      // Not a token was computed: the pod held the prompt.
      expect(records[0]?.kv).toMatchObject({ source: 'local' });
      const counters = (await stack.states()).map(
        (state) => state.counters['sim_local_prefill_total'],
      );
      expect(counters).toEqual([0, 0, 0, 0]);
    },
  );

  it('lets the gate open for a prompt that is shorter than prefill is worth', async () => {
    expect((await legsOf('decider', chatOf(shortText()))).took).toEqual(decodeAlone);
  });

  it('goes by the prompt alone when the gate is of the older kind', async () => {
    const body = chatOf(shortText());
    expect((await legsOf('legacy', body)).took).toEqual(cascade);
    expect((await legsOf('legacy', body)).took).toEqual(decodeAlone);
  });

  it('runs the cascade each time when the gate never opens', async () => {
    const body = chatOf(longText());
    expect((await legsOf('always412', body)).took).toEqual(cascade);
    expect((await legsOf('always412', body)).took).toEqual(cascade);
  });

  it('has workers that ignore the preference compute the prompt when nobody keeps a gate', async () => {
    expect((await legsOf('off', chatOf(longText()))).took).toEqual(decodeAlone);
  });

  it('goes on after the 412 of a worker that keeps the gate itself', async () => {
    await stack.configure('decode', { conditionalDecode: 'enforce' });
    const body = chatOf(longText());
    expect((await legsOf('off', body)).took).toEqual(cascade);
    expect((await legsOf('off', body)).took).toEqual(decodeAlone);
  });
});
