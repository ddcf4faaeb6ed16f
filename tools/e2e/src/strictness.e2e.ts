import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import {
  chatOf,
  drawImage,
  type ProxiedCall,
  type Proxy,
  startProxy,
  type Tampering,
  type TestImage,
} from '@llm-d/soak';
import { type Answer, ask } from './ask.ts';
import { onePodEach, startTestStack, type TestStack } from './test-stack.ts';

const path = '/v1/chat/completions';

let stack: TestStack;
let proxy: Proxy;
let url: string;
let count = 0;

beforeAll(async () => {
  stack = await startTestStack({ workers: onePodEach });
  proxy = await startProxy(stack.internalUrl);
  url = await stack.startCoordinator('tampered', { gateway: { address: proxy.url } });
});

afterAll(async () => {
  await stack.stop();
  await proxy.close();
});

afterEach(async () => {
  proxy.tamper({});
  // Back up whatever has ended; leases that nobody will fetch go too.
  await Promise.all(stack.pods.map((pod) => ask(pod.url, { path: '/admin/reset' })));
});

/** Asks about a picture through the proxy. */
async function askAboutPicture(): Promise<{ requestId: string; answer: Answer }> {
  count += 1;
  const requestId = `strict-${count}`;
  const images: TestImage[] = [await drawImage(count)];
  const body = chatOf(`Question ${count}: what is on this picture, and who has drawn it?`, {
    images,
  });
  return { requestId, answer: await ask(url, { path, requestId, body }) };
}

/** The request failed, and everybody can see where. */
async function expectFailure(
  { requestId, answer }: { requestId: string; answer: Answer },
  phase: 'prefill' | 'decode',
  reason: RegExp,
): Promise<void> {
  expect(answer.status).toBeGreaterThanOrEqual(500);
  expect(answer.body.toString()).toMatch(/"error":/);
  const [record] = await stack.records(requestId, phase);
  expect(record?.outcome).toMatchObject({ status: 'failed', httpStatus: 500 });
  expect(record?.outcome.message).toMatch(reason);
  const legs = await stack.legs(requestId);
  expect(legs.at(-1)).toMatchObject({ profile: phase, status: 500 });
  const { outcome } = await stack.summary(requestId, 'tampered');
  expect(outcome).toBe('failed');
}

/** Changes the answers of one phase. */
const answersOf = (phase: string, change: (body: string) => string): Tampering => ({
  answer: (body, call) => (call.phase === phase ? change(body) : body),
});

/** Changes the body of the calls of one phase. */
const callsOf = (phase: string, change: (body: string) => string): Tampering => ({
  request: (body, call) => (call.phase === phase ? change(body) : body),
});

const changeDigit = (digit: string): string => String((Number(digit) + 1) % 10);

describe('the simulated workers', () => {
  it('serve what passes the proxy unchanged', async () => {
    const { answer } = await askAboutPicture();
    expect(answer.status).toBe(200);
  });

  it.each([
    {
      what: 'one digit of remote_block_ids is changed',
      tampering: answersOf('prefill', (body) =>
        body.replace(/(?<="remote_block_ids":\[\[\d*)\d(?=[,\]])/, changeDigit),
      ),
      reason: /^KV load failed: altered: remote_block_ids/,
    },
    {
      what: 'the last digit of a number above 2^53 is changed',
      tampering: answersOf('prefill', (body) =>
        body.replace(/(?<="sim_lease_nonce":\d+)\d(?=[,}])/, changeDigit),
      ),
      reason: /^KV load failed: altered: sim_lease_nonce/,
    },
    {
      what: 'a field that nobody knows is dropped',
      tampering: callsOf('decode', (body) => body.replace(/,"sim_lease_nonce":\d+/, '')),
      reason: /^KV load failed: altered: sim_lease_nonce/,
    },
    {
      what: 'the prompt is changed on the way to decode',
      tampering: callsOf('decode', (body) => body.replace('Question', 'Answer')),
      reason: /^KV load failed: other-prompt/,
    },
    {
      what: 'the KV params name another engine',
      tampering: callsOf('decode', (body) =>
        body.replace(/(?<="remote_engine_id":")[^"]+/, '00000000-0000-4000-8000-000000000000'),
      ),
      reason: /^KV load failed: unknown-engine/,
    },
  ])('fail the request when $what', async ({ tampering, reason }) => {
    proxy.tamper(tampering);
    await expectFailure(await askAboutPicture(), 'decode', reason);
  });

  it('fail both requests when their KV params are swapped', async () => {
    const both = Promise.withResolvers<readonly [ProxiedCall, ProxiedCall]>();
    const answered: ProxiedCall[] = [];
    proxy.tamper({
      async answer(body, call) {
        if (call.phase !== 'prefill') return body;
        answered.push(call);
        const [first, second] = answered;
        if (first && second) both.resolve([first, second]);
        const [one, other] = await both.promise;
        return (call === one ? other : one).answered.toString();
      },
    });
    const results = await Promise.all([askAboutPicture(), askAboutPicture()]);
    for (const result of results) {
      await expectFailure(result, 'decode', /^KV load failed: other-prompt/);
    }
  });

  it.each([
    {
      what: 'the EC params are dropped',
      change: (body: string) =>
        body.replace(/,"ec_transfer_params":\{(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*\}/, ''),
      reason: /^encoder cache miss: no embedding for/,
    },
    {
      what: 'the EC params name another embedding',
      change: (body: string) => body.replace(/(?<="nonce":\d+)\d(?=[,}])/, changeDigit),
      reason: /^encoder cache miss: .*not what encode answered/,
    },
    {
      what: 'the EC params are those of another picture',
      change: (body: string) =>
        body.replace(/(?<="ec_transfer_params":\{")./, (digit) => (digit === '0' ? '1' : '0')),
      reason: /^ec_transfer_params names .* which is not in this prompt/,
    },
  ])('fail the request when $what', async ({ change, reason }) => {
    proxy.tamper(callsOf('prefill', change));
    await expectFailure(await askAboutPicture(), 'prefill', reason);
  });

  it('stay down after what ends a real pod, until they are reset', async () => {
    proxy.tamper(callsOf('decode', (body) => body.replace(/"remote_engine_id":"[^"]+",/, '')));
    await expectFailure(await askAboutPicture(), 'decode', /^EngineCore encountered an issue/);
    proxy.tamper({});
    const next = await askAboutPicture();
    expect(next.answer.status).toBe(503);
    const dead = (await stack.states()).find(({ role }) => role === 'decode');
    expect(dead?.deathCause).toMatch(/remote_engine_id is missing/);
  });
});
