import { createServer, type RequestListener } from 'node:http';
import { type AddressInfo } from 'node:net';
import { once } from 'node:events';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { createMediaFetcher, type MediaFetcher } from '@llm-d/media';
import {
  ClientGoneError,
  type CoordinatorError,
  silentLogger,
  type StepDependencies,
} from '@llm-d/pipeline';
import { requestContext } from '@llm-d/pipeline/testing';
import { builtInSteps } from '@llm-d/steps';
import { mediaSource } from './media-source.ts';

// The cases of media-fetcher.md 2.5 by number, through the step and the fetcher as the coordinator joins them. U9 to U13,
// U26, U34 to U38 and U45 are about parts of the fetcher and tested beside those; U19 is the type of the step below.

const mebibyte = 1024 * 1024;
const definition = builtInSteps.find(({ type }) => type === 'replace-media-urls');
let asked: string[] = [];
const origin = createServer((request, response) => {
  asked.push(request.url ?? '');
  (answers[request.url ?? ''] ?? jpeg)(request, response);
});
const sized =
  (bytes: number, isChunked: boolean): RequestListener =>
  (_, response) => {
    response.setHeader('content-type', 'image/jpeg');
    if (!isChunked) response.setHeader('content-length', bytes);
    response.write(Buffer.alloc(bytes - 1));
    response.end('x');
  };
const jpeg: RequestListener = (_, response) => {
  response.setHeader('content-type', 'image/jpeg').end('jpeg-bytes');
};
const answers: Record<string, RequestListener> = {
  '/404': (_, response) => response.writeHead(404).end(),
  '/png': (_, response) => response.setHeader('content-type', 'image/png').end('png-bytes'),
  '/untyped': (_, response) => response.end('bytes'),
  '/chunked': sized(mebibyte + 1, true),
  '/long': sized(mebibyte + 1, false),
  '/cap': sized(mebibyte, false),
  '/cut': (_, response) => {
    response.writeHead(200, { 'content-length': 100 }).write('hello', () => {
      response.socket?.destroy();
    });
  },
  '/metadata': (_, response) =>
    response.writeHead(302, { location: 'http://169.254.169.254/latest/meta-data/' }).end(),
};

let fetcher: MediaFetcher;
let base = '';
beforeAll(async () => {
  await once(origin.listen(0, '127.0.0.1'), 'listening');
  base = `http://127.0.0.1:${(origin.address() as AddressInfo).port}`;
});
afterAll(() => {
  origin.close();
});
beforeEach(() => {
  asked = [];
  fetcher = createMediaFetcher({ testOnlyAllowLoopback: true });
});
afterEach(() => fetcher.close());

interface Outcome {
  /** What the step threw. */
  readonly error: CoordinatorError | undefined;
  /** URLs of the body behind the step. */
  readonly urls: string[];
  readonly entries: number;
}

async function run(body: unknown, given: Given = {}): Promise<Outcome> {
  const { api = 'chat', params = {}, by = fetcher, signal } = given;
  const ctx = requestContext({ api, body: JSON.stringify(body), ...(signal && { signal }) });
  let error: CoordinatorError | undefined;
  try {
    const parsed = definition?.params.parse(params);
    const step = definition?.create(parsed, {
      ...{ media: mediaSource(by), log: silentLogger, hasTokensInLegs: false },
    } as unknown as StepDependencies);
    await step?.(ctx);
  } catch (thrown) {
    error = thrown as CoordinatorError;
  }
  const urls = [...ctx.body.toString().matchAll(/"(?:url|image_url)":"([^"]*)"/g)];
  return { error, urls: urls.map(([, url = '']) => url), entries: ctx.media.length };
}

interface Given {
  readonly api?: 'chat' | 'responses';
  readonly params?: Record<string, unknown>;
  readonly by?: MediaFetcher;
  readonly signal?: AbortSignal;
}

const part = (url: unknown) => ({ type: 'image_url', image_url: { url } });
const chat = (...parts: unknown[]) => ({
  model: 'm',
  messages: [{ role: 'user', content: parts }],
});
const images = (...urls: unknown[]) => chat(...urls.map(part));
const input = (...parts: unknown[]) => ({ model: 'm', input: [{ role: 'user', content: parts }] });
const inputImage = (url: string) => ({ type: 'input_image', image_url: url, detail: 'low' });
const responses = { api: 'responses' } as const;
const inlineJpeg = 'data:image/jpeg;base64,/9j/4AAQSkZJRg==';
const downloaded = `data:image/jpeg;base64,${Buffer.from('jpeg-bytes').toString('base64')}`;
const text = { type: 'text', text: 'look' };

describe('media-fetcher.md 2.5, what passes', () => {
  it.each<{ name: string; body: () => unknown; given?: Given; urls: string[]; entries?: number }>([
    {
      name: 'U1: a text and an image',
      body: () => chat(text, part(`${base}/a`)),
      urls: [downloaded],
    },
    {
      name: 'U2: an image of responses',
      body: () => input(inputImage(`${base}/a`)),
      given: responses,
      urls: [downloaded],
    },
    {
      name: 'U4: a stray input beside messages',
      body: () => ({ ...chat(text), input: input(inputImage('http://h.example/a')).input }),
      urls: ['http://h.example/a'],
      entries: 0,
    },
    {
      name: 'U5: a text as content',
      body: () => ({ messages: [{ role: 'user', content: 'hi' }] }),
      urls: [],
    },
    { name: 'U7: an inline image', body: () => images(inlineJpeg), urls: [inlineJpeg] },
    {
      name: 'U8: http then data',
      body: () => images(`${base}/a`, inlineJpeg),
      urls: [downloaded, inlineJpeg],
    },
    {
      name: 'U8: data then http',
      body: () => images(inlineJpeg, `${base}/a`),
      urls: [inlineJpeg, downloaded],
    },
    {
      name: 'U16: two images of at most two',
      body: () => images(`${base}/a`, `${base}/b`),
      given: { params: { max_multimodal_entries: 2 } },
      urls: [downloaded, downloaded],
    },
    {
      name: 'U17: three images without limit',
      body: () => images(`${base}/a`, `${base}/b`, `${base}/c`),
      urls: [downloaded, downloaded, downloaded],
    },
    { name: 'U20: no messages', body: () => ({ model: 'm' }), urls: [] },
    { name: 'U20: a message that is no object', body: () => ({ messages: ['x', 5] }), urls: [] },
    { name: 'U20: a part that is no object', body: () => chat('x', 5, null), urls: [] },
    {
      name: 'U24: an answer without type',
      body: () => images(`${base}/untyped`),
      urls: [`data:application/octet-stream;base64,${Buffer.from('bytes').toString('base64')}`],
    },
    {
      name: 'U30: a body of exactly the cap',
      body: () => images(`${base}/cap`),
      given: { params: { max_download_size: 1 } },
      urls: [
        `data:image/jpeg;base64,${Buffer.concat([Buffer.alloc(mebibyte - 1), Buffer.from('x')]).toString('base64')}`,
      ],
    },
    {
      name: 'U43, U45: a host of the list',
      body: () => images(`${base}/a`),
      given: { params: { allowed_domains: ['127.0.0.1'] } },
      urls: [downloaded],
    },
    {
      name: 'U50: images in content and in the result of a function',
      body: () => ({
        input: [
          ...input(inputImage(`${base}/a`)).input,
          { type: 'function_call_output', call_id: 'c', output: [inputImage(`${base}/b`)] },
        ],
      }),
      given: responses,
      urls: [downloaded, downloaded],
    },
    {
      name: 'U51: an output inside a message of a chat',
      body: () => ({
        messages: [{ role: 'tool', content: 'x', output: [part('http://h.example/a')] }],
      }),
      urls: ['http://h.example/a'],
      entries: 0,
    },
  ])('$name', async ({ body, given, urls, entries = urls.length }) => {
    const outcome = await run(body(), given);
    expect(outcome.error).toBeUndefined();
    expect(outcome.urls).toEqual(urls);
    expect(outcome.entries).toBe(entries);
    if (entries === 0) expect(asked).toEqual([]);
  });
});

describe('media-fetcher.md 2.5, what is refused with no entry and no change', () => {
  it.each<{
    name: string;
    body: () => unknown;
    given?: Given;
    status?: number;
    message?: RegExp;
    asks?: boolean;
  }>([
    {
      name: 'U3: file_id alone',
      body: () => input({ type: 'input_image', file_id: 'f' }),
      given: responses,
    },
    {
      name: 'U6: an origin’s 404',
      body: () => images(`${base}/404`),
      message: /^messages\[0\]\.content\[0\]: .*404/,
      asks: true,
    },
    {
      name: 'U14: three images of at most two',
      body: () => images(`${base}/a`, `${base}/b`, `${base}/c`),
      given: { params: { max_multimodal_entries: 2 } },
      message: /too many multimodal entries: got 3, max 2/,
    },
    {
      name: 'U21: image_url as a text',
      body: () => chat({ type: 'image_url', image_url: 'http://h.example' }),
    },
    { name: 'U21: url as a number', body: () => images(5) },
    { name: 'U22: a malformed part beside a good one', body: () => images(`${base}/a`, undefined) },
    {
      name: 'U23: no comma',
      body: () => images('data:image/jpeg;base64'),
      message: /parsing data URI/,
    },
    {
      name: 'U25: nobody listens',
      body: () => images('http://127.0.0.1:1/a'),
      status: 424,
      message: /downloading/,
    },
    { name: 'U27: DEL in the host', body: () => images('http://h\u007f.example/a') },
    {
      name: 'U28: chunks beyond the cap',
      body: () => images(`${base}/chunked`),
      given: { params: { max_download_size: 1 } },
      asks: true,
    },
    {
      name: 'U29: a length beyond the cap',
      body: () => images(`${base}/long`),
      given: { params: { max_download_size: 1 } },
      asks: true,
    },
    {
      name: 'U31: one of three too large',
      body: () => images(`${base}/a`, `${base}/long`, `${base}/b`),
      given: { params: { max_download_size: 1 } },
      message: /^messages\[0\]\.content\[1\]/,
      asks: true,
    },
    {
      name: 'U33: a cut body',
      body: () => images(`${base}/cut`),
      given: { params: { max_retries: 0 } },
      status: 424,
      asks: true,
    },
    { name: 'U39: file', body: () => images('file:///etc/passwd') },
    { name: 'U39: gopher', body: () => images('gopher://h.example/') },
    { name: 'U39: ftp', body: () => images('ftp://h.example/a') },
    { name: 'U40: metadata', body: () => images('http://169.254.169.254/latest/meta-data/') },
    { name: 'U41: a redirect to metadata', body: () => images(`${base}/metadata`), asks: true },
    {
      name: 'U43: a host that is not on the list',
      body: () => images(`${base}/a`),
      given: { params: { allowed_domains: ['h.example'] } },
    },
    { name: 'U47: HTML inline', body: () => images('data:text/html;base64,AAAA') },
    { name: 'U48: no type inline', body: () => images('data:;base64,AAAA') },
  ])('$name', async ({ body, given, status = 400, message = /./, asks = false }) => {
    const { error, entries, urls } = await run(body(), given);
    expect(error).toMatchObject({ status, message: expect.stringMatching(message) });
    expect(entries).toBe(0);
    expect(urls.filter((url) => url.startsWith('data:') && url.includes(downloaded))).toEqual([]);
    if (!asks) expect(asked).toEqual([]);
  });

  it('U42: loopback with the guard as it is by default', async () => {
    const guarded = createMediaFetcher();
    const { error } = await run(images(`${base.replace('127.0.0.1', 'localhost')}/a`), {
      by: guarded,
    });
    expect(error).toMatchObject({ status: 400 });
    expect(asked).toEqual([]);
    await guarded.close();
  });

  it('U49: a request that is over is cancelled, whatever is in it', async () => {
    const left = new AbortController();
    left.abort(new ClientGoneError());
    const { error } = await run(images('data:text/html;base64,AAAA'), { signal: left.signal });
    expect(error).toBeInstanceOf(ClientGoneError);
  });

  it.each([
    { row: 'U15', params: { max_multimodal_entries: -1 } },
    { row: 'U18', params: { max_concurrent_downloads: 0 } },
    { row: 'U18', params: { max_concurrent_downloads: -1 } },
    { row: 'U32', params: { max_download_size: 0 } },
    { row: 'U32', params: { max_download_size: -1 } },
    { row: 'U32', params: { max_download_size: 384 } },
    { row: 'U32', params: { max_download_size: Number.MAX_SAFE_INTEGER } },
    { row: 'U44', params: { allowed_domains: [123] } },
    { row: 'U46', params: { allowed_domains: 'images.example.com' } },
  ])('$row: $params ends the start', async ({ params }) => {
    const { error } = await run(images(inlineJpeg), { params });
    expect(error).toBeInstanceOf(Error);
    expect(error).not.toMatchObject({ status: expect.anything() });
  });

  it('U18: max_concurrent_downloads: 5 is fine', async () => {
    const { error } = await run(images(inlineJpeg), { params: { max_concurrent_downloads: 5 } });
    expect(error).toBeUndefined();
  });
});
