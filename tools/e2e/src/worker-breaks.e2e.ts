import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { chatOf, drawImage, type Proxy, startProxy, until } from '@llm-d/soak';
import { ask, eventsOf, open } from './ask.ts';
import { type ApiError, chunksOf, jsonOf } from './openai.ts';
import { onePodEach, startTestStack, type TestStack } from './test-stack.ts';

const path = '/v1/chat/completions';
const roles = ['encode', 'prefill', 'decode'] as const;

let stack: TestStack;
let proxy: Proxy;
/** Gives an upstream half a second to its headers. */
let impatientUrl: string;
/** Has a proxy between itself and the gateway. */
let proxiedUrl: string;
let count = 0;

beforeAll(async () => {
  stack = await startTestStack({ workers: onePodEach });
  proxy = await startProxy(stack.internalUrl);
  impatientUrl = await stack.startCoordinator('impatient', { gateway: { timeout: '500ms' } });
  proxiedUrl = await stack.startCoordinator('proxied', { gateway: { address: proxy.url } });
});

afterAll(async () => {
  await stack.stop();
  await proxy.close();
});

afterEach(async () => {
  for (const role of roles) await stack.configure(role, { fault: '', itlMs: 0, mode: 'report' });
  proxy.tamper({});
});

/** Asks about a picture, so that every phase has its part. */
async function askAboutPicture(url: string, fields: object) {
  count += 1;
  const requestId = `broken-${count}`;
  const body = chatOf(`Question ${count}`, { images: [await drawImage(count)], ...fields });
  return { requestId, answer: await ask(url, { path, requestId, body }) };
}

/** Whether nothing in an answer pretends that it is complete. */
function expectNoEnd(events: readonly string[]): void {
  expect(events).not.toContain('[DONE]');
  for (const event of events) expect(event).not.toMatch(/"finish_reason":"/);
}

describe('a worker that resets the connection before its first byte', () => {
  it.each(roles.flatMap((role) => [false, true].map((stream) => ({ role, stream }))))(
    'fails the request with a clear error of $role (stream: $stream)',
    async ({ role, stream }) => {
      await stack.configure(role, { fault: 'reset' });
      const { requestId, answer } = await askAboutPicture(stack.publicUrl, { stream });
      expect(answer.status).toBe(503);
      expect(answer.headers['content-type']).toMatch(/^application\/json/);
      expect(answer.headers['x-request-id']).toBe(requestId);
      expect(jsonOf<ApiError>(answer)).toEqual({
        error: {
          message: `${role === 'encode' ? 'encode[0]' : role}: upstream returned HTTP 503 (request_id: ${requestId})`,
          type: 'server_error',
          param: null,
          code: 'UPSTREAM_ERROR',
          step: role,
          request_id: requestId,
        },
      });
      // One attempt: nobody knows what the first one has done.
      const legs = await stack.legs(requestId);
      expect(legs.filter(({ profile }) => profile === role)).toHaveLength(1);
    },
  );
});

describe('a worker that breaks in the middle of a stream', () => {
  it('gives the client what came, then one error event, and no end', async () => {
    await stack.configure('decode', { fault: 'reset;after=5', itlMs: 10 });
    const { requestId, answer } = await askAboutPicture(stack.publicUrl, { stream: true });
    expect(answer.status).toBe(200);
    const events = eventsOf(answer);
    expectNoEnd(events);
    const [error = '', ...earlier] = events.toReversed();
    // The role and five tokens.
    expect(earlier).toHaveLength(6);
    expect(JSON.parse(error)).toEqual({
      error: {
        message: `decode: the upstream closed the connection before its answer was complete (request_id: ${requestId})`,
        type: 'server_error',
        param: null,
        code: 'UPSTREAM_UNREACHABLE',
        step: 'decode',
        request_id: requestId,
        status: 502,
      },
    });
    const legs = await stack.legs(requestId);
    expect(legs.map(({ profile }) => profile)).toEqual(['encode', 'prefill', 'decode']);
    const { outcome } = await stack.summary(requestId);
    expect(outcome).toBe('failed');
    expect(
      stack
        .log()
        .filter(({ level }) => level === 'error')
        .at(-1),
    ).toMatchObject({
      request_id: requestId,
      step: 'decode',
    });
  });

  it('adds nothing to a stream that ends without [DONE]', async () => {
    await stack.configure('decode', { fault: 'truncate;after=5' });
    const { answer } = await askAboutPicture(stack.publicUrl, { stream: true });
    expect(answer).toMatchObject({ status: 200, isWhole: true });
    const events = eventsOf(answer);
    expectNoEnd(events);
    expect(events).toHaveLength(6);
    expect(chunksOf(answer)).toHaveLength(6);
  });

  it("passes on a worker's own error event", async () => {
    await stack.configure('decode', { fault: 'error-frame;after=2' });
    const { answer } = await askAboutPicture(stack.publicUrl, { stream: true });
    const [done, error = ''] = eventsOf(answer).toReversed();
    expect(done).toBe('[DONE]');
    expect(JSON.parse(error)).toMatchObject({ error: { message: 'injected error' } });
  });

  it('hands on each token as it comes, and waits for a silent worker longer than for headers', async () => {
    await stack.configure('decode', { fault: 'stall;after=3;ms=1500' });
    count += 1;
    const requestId = `broken-${count}`;
    const body = chatOf(`Question ${count}`, { stream: true });
    const answer = await open(impatientUrl, { path, requestId, body });
    const pieces: Buffer[] = [];
    answer.body.on('data', (piece: Buffer) => pieces.push(piece));
    const soFar = (): string[] => eventsOf({ body: Buffer.concat(pieces) });
    await until('three tokens', () => (soFar().length === 4 ? true : undefined));
    const [record] = await stack.records(requestId, 'decode');
    expect(record?.outcome).toMatchObject({ status: 'running', completionTokens: 3 });
    await until('the end', () => (soFar().at(-1) === '[DONE]' ? true : undefined));
  });

  it('relays characters that are cut into single bytes, byte for byte', async () => {
    const script = 'Größe 北京 🌍 naïve';
    await stack.configure('decode', { fault: 'tiny-chunks', mode: 'script', script });
    const fields = { stream: true, stream_options: { include_usage: true } };
    const { requestId, answer } = await askAboutPicture(proxiedUrl, fields);
    const call = proxy.calls.find(
      ({ requestId: id, phase }) => id === requestId && phase === 'decode',
    );
    expect(answer.body.equals(call?.answered ?? Buffer.alloc(0))).toBe(true);
    const [usage, ...others] = chunksOf(answer).toReversed();
    const said = others.toReversed().map(({ choices }) => choices[0]?.delta?.content ?? '');
    expect(said.join('')).toBe(script);
    expect(usage).toMatchObject({ choices: [], usage: { completion_tokens: 4 } });
  });
});

describe('an answer that is not streamed', () => {
  it('is an error, not a short 200, when it is cut', async () => {
    proxy.tamper({ cutAfterBytes: ({ phase }) => (phase === 'decode' ? 200 : undefined) });
    const { requestId, answer } = await askAboutPicture(proxiedUrl, {});
    expect(answer.status).toBe(502);
    expect(jsonOf<ApiError>(answer).error).toMatchObject({
      code: 'UPSTREAM_UNREACHABLE',
      step: 'decode',
      request_id: requestId,
    });
    const { outcome, code } = await stack.summary(requestId, 'proxied');
    expect({ outcome, code }).toEqual({ outcome: 'failed', code: 'UPSTREAM_UNREACHABLE' });
  });

  it('of prefill fails the request when it is cut', async () => {
    proxy.tamper({ cutAfterBytes: ({ phase }) => (phase === 'prefill' ? 100 : undefined) });
    const { requestId, answer } = await askAboutPicture(proxiedUrl, {});
    expect(answer.status).toBe(502);
    expect(jsonOf<ApiError>(answer).error).toMatchObject({
      code: 'UPSTREAM_UNREACHABLE',
      step: 'prefill',
      request_id: requestId,
    });
  });

  it('of prefill fails the request when it is no JSON', async () => {
    await stack.configure('prefill', { fault: 'garbage' });
    const { answer } = await askAboutPicture(stack.publicUrl, {});
    expect(answer.status).toBe(502);
    expect(answer.body.toString()).not.toContain('html');
    expect(jsonOf<ApiError>(answer).error).toMatchObject({
      code: 'UPSTREAM_ANSWER_INVALID',
      step: 'prefill',
    });
  });

  it.each(roles)('of a silent %s worker is waited for until gateway.timeout', async (role) => {
    await stack.configure(role, { fault: 'hang' });
    const { requestId, answer } = await askAboutPicture(impatientUrl, {});
    expect(answer.status).toBe(504);
    expect(jsonOf<ApiError>(answer).error).toMatchObject({
      code: 'UPSTREAM_TIMEOUT',
      step: role,
      request_id: requestId,
    });
    await until('the end of the leg', async () => {
      const [record] = await stack.records(requestId, role);
      return record?.outcome.status === 'aborted' ? true : undefined;
    });
  });
});
