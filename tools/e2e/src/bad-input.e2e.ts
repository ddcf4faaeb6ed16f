import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { chatOf, drawImage } from '@llm-d/soak';
import { type Answer, ask, type Question } from './ask.ts';
import { type ApiError, jsonOf } from './openai.ts';
import { onePodEach, startTestStack, type TestStack } from './test-stack.ts';

const path = '/v1/chat/completions';
/** Nobody listens here. */
const closedPort = 'http://127.0.0.1:9';

let stack: TestStack;
/** Coordinators by name; `public` is the one behind the gateway's public listener, with hidden upstream errors. */
const urls: Record<string, string> = {};
let count = 0;

beforeAll(async () => {
  stack = await startTestStack({
    workers: onePodEach,
    coordinator: { server: { upstream_errors: 'hide', max_request_body_size: 1 } },
  });
  urls['public'] = stack.publicUrl;
  urls['direct'] = stack.coordinatorUrl;
  urls['relay'] = await stack.startCoordinator('relay', { server: { upstream_errors: 'relay' } });
  urls['no-gateway'] = await stack.startCoordinator('no-gateway', {
    gateway: { address: closedPort },
  });
  urls['closed'] = await stack.startCoordinator('closed', { pipeline: { passthrough: false } });
  urls['no-render'] = await stack.startCoordinator('no-render', { renderUrl: closedPort });
});

afterAll(() => stack.stop());

afterEach(() => stack.configure('prefill', { fault: '' }));

/** What an answer must say; texts that are no part of the contract are left out. */
interface Refusal {
  readonly status: number;
  readonly code: string;
  readonly type?: string;
  readonly param?: string | null;
  readonly step?: string;
  readonly message?: RegExp;
}

async function askWith(url = '', question: Partial<Question>) {
  count += 1;
  const requestId = `bad-${count}`;
  return { requestId, answer: await ask(url, { path, requestId, ...question }) };
}

/** An OpenAI error with everything that a client needs and nothing that is not his business. */
function expectRefusal(answer: Answer, requestId: string, refusal: Refusal): void {
  const { status, code, type = 'invalid_request_error', param = null, step, message } = refusal;
  const text = answer.body.toString('utf8');
  expect({ status: answer.status, text }).toEqual({ status, text });
  expect(answer.headers['content-type']).toMatch(/^application\/json/);
  expect(answer.headers['x-request-id']).toBe(requestId);
  const { error } = jsonOf<ApiError>(answer);
  expect(error).toEqual({
    message: expect.stringMatching(message ?? /./),
    type,
    param,
    code,
    ...(step === undefined ? {} : { step }),
    request_id: requestId,
  });
  expect(text).not.toMatch(/https?:|127\.0\.0\.1|injected|SECRET|\bat \w+ \(|node_modules/);
}

const withPicture = (url: string): object =>
  chatOf('What is it?', { images: [{ uri: url, width: 0, height: 0 }] });
const notAnImage = `data:image/png;base64,${Buffer.from('SECRET words').toString('base64')}`;

describe('through the public listener', () => {
  it.each<{ name: string; question: Partial<Question>; refusal: Refusal }>([
    {
      name: 'a body that is cut',
      question: { body: '{"model":"sim/model","messages":[{"role":"user","content":"SECRET' },
      refusal: { status: 400, code: 'BAD_REQUEST' },
    },
    { name: 'no body', question: {}, refusal: { status: 400, code: 'BAD_REQUEST' } },
    {
      name: 'something behind the body',
      question: { body: '{} {}' },
      refusal: { status: 400, code: 'BAD_REQUEST' },
    },
    ...['[]', 'null', '7', '"SECRET"'].map((body) => ({
      name: `the body ${body}`,
      question: { body },
      refusal: { status: 400, code: 'BAD_REQUEST', message: /object/ },
    })),
    {
      name: 'a body that is not UTF-8',
      question: { body: Buffer.from('{"model":"\xff"}', 'latin1') },
      refusal: { status: 400, code: 'BAD_REQUEST' },
    },
    {
      name: 'a field that stands twice',
      question: { body: '{"model":"sim/model","messages":[],"stream":false,"stream":true}' },
      refusal: { status: 400, code: 'BAD_REQUEST', message: /stream/ },
    },
    {
      name: 'a prompt that is a number',
      question: { path: '/v1/completions', body: { model: 'sim/model', prompt: 7 } },
      refusal: { status: 400, code: 'BAD_REQUEST', step: 'render', param: 'prompt' },
    },
    {
      name: 'token ids that are texts',
      question: {
        path: '/inference/v1/generate',
        body: { model: 'sim/model', token_ids: [1, 'SECRET'], sampling_params: {} },
      },
      refusal: { status: 400, code: 'BAD_REQUEST', step: 'render', param: 'token_ids[1]' },
    },
    {
      name: 'messages that are a text',
      question: { body: { model: 'sim/model', messages: 'SECRET' } },
      refusal: { status: 400, code: 'UPSTREAM_ERROR', step: 'render', message: /HTTP 400/ },
    },
    {
      name: 'another method',
      question: { method: 'GET' },
      refusal: { status: 405, code: 'METHOD_NOT_ALLOWED', message: /POST, not GET/ },
    },
    {
      name: 'a model that nobody serves',
      question: { body: chatOf('Hello', { model: 'SECRET/model' }) },
      refusal: {
        status: 404,
        code: 'UPSTREAM_ERROR',
        type: 'not_found_error',
        step: 'render',
        message: /HTTP 404/,
      },
    },
    {
      name: 'an image that is none',
      question: { body: withPicture(notAnImage) },
      refusal: { status: 400, code: 'UPSTREAM_ERROR', step: 'render' },
    },
    {
      name: 'an image at a private address',
      question: { body: withPicture('http://127.0.0.1/SECRET.png?token=SECRET') },
      refusal: {
        status: 400,
        code: 'media_address_blocked',
        step: 'replace-media-urls',
        param: 'messages[0].content[0]',
      },
    },
    {
      name: 'an image of another scheme',
      question: { body: withPicture('file:///etc/SECRET') },
      refusal: {
        status: 400,
        code: 'media_scheme_not_allowed',
        step: 'replace-media-urls',
        param: 'messages[0].content[0]',
      },
    },
  ])('refuses $name', async ({ question, refusal }) => {
    const { requestId, answer } = await askWith(urls['public'], question);
    expectRefusal(answer, requestId, refusal);
    if (refusal.status === 405) expect(answer.headers['allow']).toBe('POST');
    expect(await stack.legs(requestId)).toEqual([]);
  });

  it('gives a client that sends too much an answer that it can read, and serves it again', async () => {
    const body = Buffer.alloc(1.9 * 1024 * 1024, 'x');
    for (const url of [urls['public'], urls['direct']]) {
      const { requestId, answer } = await askWith(url, { body });
      expectRefusal(answer, requestId, {
        status: 413,
        code: 'REQUEST_TOO_LARGE',
        message: /limit of 1048576 bytes/,
      });
      const next = await askWith(url, { body: chatOf('Hello') });
      expect(next.answer.status).toBe(200);
    }
  });

  it.each([
    { fault: 'status=400', status: 400, type: 'invalid_request_error', upstream: 400 },
    { fault: 'status=429', status: 429, type: 'rate_limit_error', upstream: 429, retryAfter: '1' },
    { fault: 'status=500', status: 502, type: 'server_error', upstream: 500 },
    { fault: 'status=503', status: 503, type: 'server_error', upstream: 503, retryAfter: '1' },
  ])(
    'answers $status when prefill fails with $fault',
    async ({ fault, status, type, upstream, retryAfter }) => {
      await stack.configure('prefill', { fault });
      const { requestId, answer } = await askWith(urls['public'], { body: chatOf('Hello') });
      expectRefusal(answer, requestId, {
        status,
        code: 'UPSTREAM_ERROR',
        type,
        step: 'prefill',
        message: new RegExp(
          `^prefill: upstream returned HTTP ${upstream} \\(request_id: ${requestId}\\)$`,
        ),
      });
      expect(answer.headers['retry-after']).toBe(retryAfter);
      const legs = await stack.legs(requestId);
      expect(legs.map(({ profile }) => profile)).toEqual(['prefill']);
    },
  );
});

describe('the coordinator', () => {
  it('hands a path that it does not know to a decode worker, whose answer it is', async () => {
    const { requestId, answer } = await askWith(urls['direct'], { path: '/v1/other', body: {} });
    expect(answer.status).toBe(404);
    expect(jsonOf<ApiError>(answer).error).toMatchObject({ code: 404, type: 'NotFoundError' });
    const [leg] = await stack.legs(requestId);
    expect(leg).toMatchObject({ profile: 'decode', path: '/v1/other', status: 404 });
  });

  it('refuses such a path itself when passthrough is off', async () => {
    const { requestId, answer } = await askWith(urls['closed'], { path: '/v1/SECRET', body: {} });
    expectRefusal(answer, requestId, {
      status: 404,
      code: 'UNKNOWN_PATH',
      type: 'not_found_error',
    });
  });

  it.each([
    { name: 'the gateway', url: 'no-gateway', step: 'encode' },
    { name: 'render', url: 'no-render', step: 'render' },
  ])('says that $name cannot be reached', async ({ url, step }) => {
    const images = [await drawImage(1)];
    const { requestId, answer } = await askWith(urls[url], { body: chatOf('Hello', { images }) });
    expectRefusal(answer, requestId, {
      status: 502,
      code: 'UPSTREAM_UNREACHABLE',
      type: 'server_error',
      step,
    });
  });

  it("says what an engine found wrong when it relays the engines' errors", async () => {
    const unknown = await askWith(urls['relay'], { body: chatOf('Hello', { model: 'other' }) });
    expect(unknown.answer.status).toBe(404);
    expect(jsonOf<ApiError>(unknown.answer).error).toMatchObject({
      message: expect.stringMatching(/`other` does not exist/),
      type: 'NotFoundError',
      param: 'model',
      code: 'UPSTREAM_ERROR',
      step: 'render',
      request_id: unknown.requestId,
    });

    await stack.configure('prefill', { fault: 'status=400' });
    const refused = await askWith(urls['relay'], { body: chatOf('Hello') });
    expect(refused.answer.status).toBe(400);
    expect(jsonOf<ApiError>(refused.answer).error).toMatchObject({
      message: 'injected status 400',
      step: 'prefill',
    });

    // Of a fault of its own an engine tells nothing.
    await stack.configure('prefill', { fault: 'status=500' });
    const { requestId, answer } = await askWith(urls['relay'], { body: chatOf('Hello') });
    expectRefusal(answer, requestId, {
      status: 502,
      code: 'UPSTREAM_ERROR',
      type: 'server_error',
      step: 'prefill',
    });
  });
});
