import { UpstreamClient } from '@llm-d/gateway';
import {
  ClientGoneError,
  type MediaContent,
  type MediaReference,
  type MediaSource,
  type RemoteMediaItem,
  type ReportedMediaFault,
  type RequestContext,
} from '@llm-d/pipeline';
import { requestContext } from '@llm-d/pipeline/testing';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { type Answer, type ScriptedServer, scriptedServer } from '@llm-d/testing';
import { RemoteMedia } from './remote-media.ts';
import { replaceMediaUrls } from './replace-media-urls.ts';
import { frame, Rig } from './testing.ts';

/** A fault as a source throws it; it keeps what was reported. */
class Fault extends Error {
  readonly stepStatus: number;
  readonly safeMessage: string;
  readonly code: string;
  readonly index: number | undefined;
  readonly reported: ReportedMediaFault;

  constructor(reported: ReportedMediaFault) {
    super(reported.detail);
    this.reported = reported;
    this.code = reported.code;
    this.safeMessage = reported.detail;
    this.stepStatus = reported.code === 'media_overloaded' ? 503 : 400;
    this.index = reported.index;
  }
}

class LocalSource implements MediaSource {
  asked: readonly MediaReference[] = [];
  readonly counted: RemoteMediaItem[] = [];
  checkLimits() {}
  checkUrls() {}
  countRemote = (item: RemoteMediaItem): void => void this.counted.push(item);
  checkDataUri = (uri: Uint8Array): number => {
    if (uri.length > 1_000) throw new Fault({ code: 'media_too_large', detail: 'too large' });
    return 1_000;
  };
  repairDataUri = (): undefined => undefined;
  faultOf = (reported: ReportedMediaFault): Error => new Fault(reported);
  fetchMany(references: readonly MediaReference[]): Promise<readonly MediaContent[]> {
    this.asked = references;
    const local = {
      contentType: 'image/gif',
      byteLength: 1,
      base64: () => Buffer.from('bG9jYWw='),
    };
    return Promise.resolve(references.map(() => local));
  }
}

let rig: Rig;
let fetcher: ScriptedServer;
let media: LocalSource;
beforeEach(async () => {
  rig = await Rig.open();
  fetcher = await scriptedServer();
  media = new LocalSource();
});
afterEach(async () => {
  await fetcher.close();
  await rig.close();
});

const urlOf = (i: number): string => `http://media.example.com/${i}?sig=SECRET`;
const bodyOf = (count: number): string =>
  JSON.stringify({
    model: 'm',
    messages: [
      {
        content: Array.from({ length: count }, (_, i) => ({
          type: 'image_url',
          image_url: { url: urlOf(i) },
        })),
      },
    ],
  });
const chat = (count: number, signal?: AbortSignal): RequestContext =>
  requestContext({ body: bodyOf(count), requestId: 'id-1', ...(signal && { signal }) });

const run = (ctx: RequestContext, params = {}): Promise<unknown> => {
  const all = { mode: 'remote', address: fetcher.url, ...params };
  return rig.step(replaceMediaUrls, all, { media })(ctx);
};

const framesType = { 'content-type': 'application/x-media-frames' };
const framed = (...items: Buffer[]): Answer => ({
  headers: framesType,
  bytes: Buffer.concat(items.map((bytes) => frame(bytes))),
});
const problem = (status: number, members: object): Answer => ({
  status,
  headers: { 'content-type': 'application/problem+json; charset=utf-8' },
  text: JSON.stringify({ type: 'urn:x', title: 't', status, detail: 'in words', ...members }),
});

describe('replace-media-urls with mode: remote', () => {
  it('asks the media fetcher with its limits, its token and the request id', async () => {
    fetcher.play(framed(Buffer.from('one'), Buffer.from('two')));
    const ctx = chat(2);
    await run(ctx, {
      ...{ token: 't0ken', download_timeout: '3s', max_download_size: 2 },
      ...{ max_video_download_size: 5, max_total_download_size: 7, max_concurrent_downloads: 4 },
      ...{ allowed_domains: ['media.example.com'], allowed_image_content_types: ['image/PNG'] },
    });
    const [call] = fetcher.calls;
    expect(call).toMatchObject({ method: 'POST', path: '/v1/media/batch' });
    expect(call?.headers).toMatchObject({
      'content-type': ['application/json'],
      accept: ['application/x-media-frames'],
      'x-request-id': ['id-1'],
      authorization: ['Bearer t0ken'],
    });
    const mb = 1024 * 1024;
    expect(call?.json()).toEqual({
      items: [0, 1].map((i) => ({ url: urlOf(i), modality: 'image' })),
      options: {
        timeout_ms: 3_000,
        max_bytes: { image: 2 * mb, video: 5 * mb, audio: 2 * mb },
        max_total_bytes: 7 * mb,
        inline_bytes: 0,
        max_concurrent: 4,
        max_redirects: 5,
        max_retries: 1,
        allowed_domains: ['media.example.com'],
        allowed_types: { image: ['image/png'] },
        allow_private_networks: false,
        content_check: 'sniff',
        strict_decode: false,
        transcode_image_types: [],
        cache: 'default',
      },
    });
    const urls = ['b25l', 'dHdv'].map((data) => `data:image/png;base64,${data}`);
    expect(ctx.body.toString()).toBe(
      urls.reduce((body, url, i) => body.replace(urlOf(i), url), bodyOf(2)),
    );
    expect(ctx.media).toHaveLength(2);
    expect(media.asked).toEqual([]);
  });

  it('carries every other limit', async () => {
    fetcher.play(framed(Buffer.from('one')));
    await run(chat(1), {
      ...{ max_redirects: 2, max_retries: 0, content_check: 'strict', strict_decode: true },
      ...{ cache: 'reload', transcode_image_types: ['image/avif'], allow_private_networks: true },
      ...{ transform: 'fit', transform_max_pixels: 1_003_520, transform_factor: 32 },
    });
    const { options } = fetcher.calls[0]?.json() as { options: object };
    expect(options).toMatchObject({
      ...{ max_redirects: 2, max_retries: 0, content_check: 'strict', strict_decode: true },
      ...{ cache: 'reload', transcode_image_types: ['image/avif'], allow_private_networks: true },
      transform: {
        ...{ mode: 'fit', factor: 32, min_pixels: 3136, max_pixels: 1_003_520, output: 'auto' },
        ...{ background: '#ffffff', bake_orientation: false },
      },
    });
  });

  it('tells what the request has inline, and asks nobody when that is all', async () => {
    fetcher.play(framed(Buffer.from('one')));
    const inline = '{"type":"image_url","image_url":{"url":"data:image/png;base64,eA=="}}';
    const withUrl = bodyOf(1).replace('"content":[', `"content":[${inline},`);
    await run(requestContext({ body: withUrl }));
    const { options } = fetcher.calls[0]?.json() as { options: object };
    expect(options).toMatchObject({ inline_bytes: 1_000 });
    await run(requestContext({ body: `{"messages":[{"content":[${inline}]}]}` }));
    expect(fetcher.calls).toHaveLength(1);
    expect(media.asked).toEqual([]);
  });

  it('shows no token where none is configured', async () => {
    fetcher.play(framed(Buffer.from('one')));
    await run(chat(1));
    expect(fetcher.calls[0]?.headers).not.toHaveProperty('authorization');
  });

  it('notes the call in the timeline', async () => {
    fetcher.play(framed(Buffer.from('one')));
    const ctx = chat(1);
    await run(ctx);
    expect(ctx.timeline.filter(({ kind }) => kind === 'leg')).toEqual([
      expect.objectContaining({
        ...{ name: 'replace-media-urls', status: 200, headersMs: expect.any(Number) },
        responseBytes: frame(Buffer.from('one')).length,
      }),
    ]);
  });

  it('asks nobody about a request without media by URL', async () => {
    await run(requestContext({ body: '{"messages":[{"content":"hi"}]}' }));
    expect(fetcher.calls).toEqual([]);
  });

  it('asks for 64 at a time, and keeps to the total over all of them', async () => {
    fetcher.play((call) => {
      const { items } = call.json() as { items: unknown[] };
      return framed(...items.map(() => Buffer.from('xy')));
    });
    const ctx = chat(65);
    await run(ctx, { max_total_download_size: 1 });
    const asked = fetcher.calls.map((call) => call.json() as Record<string, unknown>);
    expect(asked.map(({ items }) => (items as unknown[]).length)).toEqual([64, 1]);
    expect(asked.map(({ options }) => options)).toMatchObject([
      { max_total_bytes: 1_048_576, inline_bytes: 0 },
      { max_total_bytes: 1_048_576, inline_bytes: 128 },
    ]);
    expect(ctx.media).toHaveLength(65);
  });

  it('tells a failure as a download in this process would, naming the part', async () => {
    fetcher.play(
      problem(502, {
        ...{ code: 'media_origin_status', retryable: true, index: 1, id: '1', limit: 3, actual: 4 },
        ...{ origin_status: 503, hop: 2, cause_code: 'media_host_not_allowed', request_id: 'r' },
      }),
    );
    const ctx = chat(2);
    const failure: unknown = await run(ctx).catch((error: unknown) => error);
    expect(failure).toMatchObject({
      ...{ name: 'MediaRefusedError', status: 400, code: 'media_origin_status' },
      ...{ param: 'messages[0].content[1]', message: 'messages[0].content[1]: in words' },
      cause: {
        reported: {
          ...{ code: 'media_origin_status', detail: 'in words', retryable: true, index: 1 },
          ...{ limit: 3, actual: 4, hop: 2, causeCode: 'media_host_not_allowed' },
          originStatus: 503,
        },
      },
    });
    expect(ctx.media).toEqual([]);
    expect(ctx.body.toString()).toBe(bodyOf(2));
  });

  it('counts what comes, and what fails of it', async () => {
    const durationMs: unknown = expect.any(Number);
    const item = { modality: 'image', durationMs };
    fetcher.play(framed(Buffer.from('one'), Buffer.from('four')));
    await run(chat(2));
    expect(media.counted.splice(0)).toEqual([
      { ...item, end: { contentType: 'image/png', byteLength: 3 } },
      { ...item, end: { contentType: 'image/png', byteLength: 4 } },
    ]);
    fetcher.play(problem(403, { code: 'media_address_blocked', index: 1 }));
    await expect(run(chat(2))).rejects.toThrow();
    expect(media.counted).toMatchObject([{ end: { code: 'media_address_blocked' } }]);
  });

  describe('with a bad inline item behind a URL', () => {
    const inline = `data:image/png;base64,${'A'.repeat(1_000)}`;
    const body = bodyOf(1).replace(
      ']}]',
      `,{"type":"image_url","image_url":{"url":"${inline}"}}]}]`,
    );

    it('has the fetcher judge the URL, which downloads nothing', async () => {
      fetcher.play(problem(400, { code: 'media_data_uri_invalid', index: 1 }));
      await expect(run(requestContext({ body }))).rejects.toMatchObject({
        ...{ code: 'media_too_large', param: 'messages[0].content[1]' },
      });
      const { items } = fetcher.calls[0]?.json() as { items: unknown };
      expect(items).toEqual([
        { url: urlOf(0), modality: 'image' },
        { url: 'data:', modality: 'image' },
      ]);
      expect(media.counted).toEqual([]);
    });

    it('names the URL when that is bad, too', async () => {
      fetcher.play(problem(403, { code: 'media_host_not_allowed', index: 0 }));
      await expect(run(requestContext({ body }))).rejects.toMatchObject({
        ...{ code: 'media_host_not_allowed', param: 'messages[0].content[0]' },
      });
    });

    it('names the inline item when no media fetcher is there', async () => {
      await fetcher.close();
      await expect(run(requestContext({ body }))).rejects.toMatchObject({
        ...{ code: 'media_too_large', param: 'messages[0].content[1]' },
      });
    });
  });

  it('names the part of a failure in the second batch', async () => {
    let calls = 0;
    fetcher.play(() => {
      calls += 1;
      return calls === 1
        ? framed(...Array.from({ length: 64 }, () => Buffer.from('x')))
        : problem(415, { code: 'media_type_not_allowed', index: 1 });
    });
    await expect(run(chat(66))).rejects.toMatchObject({ param: 'messages[0].content[65]' });
  });

  it('asks to try again later when the media fetcher has too much to do', async () => {
    fetcher.play(problem(503, { code: 'media_overloaded', retryable: true }));
    await expect(run(chat(1), { fallback: 'local' })).rejects.toMatchObject({
      ...{ status: 503, code: 'media_overloaded', headers: ['retry-after', '1'] },
    });
    expect(media.asked).toEqual([]);
  });

  it.each([
    { name: 'fewer items', answer: framed() },
    { name: 'more items', answer: framed(Buffer.from('a'), Buffer.from('b')) },
    { name: 'a web page', answer: { text: '<html>' } },
    { name: 'a type of its own', answer: { bytes: frame(Buffer.from('a'), 'x"y') } },
    { name: 'a refused token', answer: problem(401, { code: 'unauthorized' }) },
    { name: 'a refused request', answer: problem(400, { code: 'request_invalid' }) },
    { name: 'no such path', answer: { status: 404, text: 'SECRET' } },
    { name: 'a redirect', answer: { status: 302, headers: { location: 'http://SECRET' } } },
    { name: 'a broken problem', answer: { ...problem(400, {}), text: '{"code":1' } },
  ])('counts $name as a fault of the media fetcher, not of the client', async ({ answer }) => {
    fetcher.play(answer);
    const failure: unknown = await run(chat(1), { fallback: 'local' }).catch(
      (error: unknown) => error,
    );
    expect(failure).toMatchObject({ status: 502, code: 'UPSTREAM_ANSWER_INVALID' });
    expect((failure as Error).message).not.toContain('SECRET');
    expect(media.asked).toEqual([]);
  });

  it('does not take more bytes than it asked for', async () => {
    fetcher.play(framed(Buffer.alloc(1_048_577)));
    await expect(run(chat(1), { max_total_download_size: 1 })).rejects.toMatchObject({
      ...{ status: 502, code: 'UPSTREAM_ANSWER_INVALID' },
    });
  });

  it('an answer that breaks off is a fault, whatever the fallback', async () => {
    const chunks = [frame(Buffer.from('abc')).subarray(0, -1), { end: 'close' as const }];
    fetcher.play({ headers: framesType, chunks });
    await expect(run(chat(1), { fallback: 'local' })).rejects.toMatchObject({
      ...{ name: 'TransportError', fault: 'reset' },
    });
    expect(media.asked).toEqual([]);
  });

  describe.each([
    { name: 'nobody listens', answer: undefined, code: { fault: 'connect' } },
    {
      name: 'the connection is reset',
      answer: { beforeHeaders: 'reset' as const },
      code: { fault: 'reset' },
    },
    {
      name: 'a proxy has nobody behind it',
      answer: { status: 503, text: 'no upstream' },
      code: { code: 'UPSTREAM_ERROR', status: 503 },
    },
    { name: 'a proxy is broken', answer: { status: 502 }, code: { status: 502 } },
  ])('when $name', ({ answer, code }) => {
    beforeEach(async () => {
      if (answer) fetcher.play(answer);
      else await fetcher.close();
    });

    it('fails with fallback: fail', async () => {
      await expect(run(chat(1))).rejects.toMatchObject(code);
      expect(media.asked).toEqual([]);
    });

    it('downloads in this process with fallback: local', async () => {
      const ctx = chat(1);
      await run(ctx, { fallback: 'local' });
      expect(media.asked).toEqual([{ url: urlOf(0), modality: 'image', index: 0 }]);
      expect(media.counted).toEqual([]);
      expect(ctx.body.toString()).toContain('data:image/gif;base64,bG9jYWw=');
    });
  });

  it('passes the client’s leaving on', async () => {
    const client = new AbortController();
    fetcher.play({ beforeHeaders: 'hang' });
    const running = run(chat(1, client.signal), { fallback: 'local' });
    const call = await fetcher.received(0);
    client.abort(new ClientGoneError());
    await expect(running).rejects.toMatchObject({ code: 'CLIENT_GONE' });
    await call.ended;
    expect(call.aborted).toBe(true);
    expect(media.asked).toEqual([]);
  });

  it('waits for as long as the downloads may take, and a little more', async () => {
    fetcher.play({ beforeHeaders: 'hang' });
    const client = new UpstreamClient({
      ...{ address: fetcher.url, connectTimeoutMs: 1_000, headersTimeoutMs: 0, bodyTimeoutMs: 0 },
      ...{ callTimeoutMs: 0, idleTimeoutMs: 1_000, maxAnswerBytes: 0 },
    });
    const remote = new RemoteMedia({
      ...{ step: 's', client, token: '', media, graceMs: 20 },
    });
    const limits = {
      ...{ downloadTimeoutMs: 40, maxConcurrentDownloads: 2, maxDownloadBytes: 1 },
      ...{ maxTotalDownloadBytes: 1, allowPrivateNetworks: false, allowedDomains: [] },
    };
    const references = [1, 2, 3].map((i) => ({
      url: urlOf(i),
      modality: 'image' as const,
      index: i,
    }));
    const startedAt = performance.now();
    await expect(remote.fetchMany(references, limits, chat(0), 0)).rejects.toMatchObject({
      ...{ name: 'TransportError', fault: 'timeout' },
    });
    // Two rounds of 40 ms, and 20.
    expect(performance.now() - startedAt).toBeGreaterThan(95);
    await client.close();
  });

  it.each([
    { params: { mode: 'remote' }, problem: /^replace-media-urls: address: expected/ },
    { params: { mode: 'elsewhere' }, problem: /mode: expected one of local, remote/ },
    { params: { mode: 'remote', address: 'here' }, problem: /address: expected an http address/ },
    { params: { fallback: 'retry' }, problem: /fallback: expected one of fail, local/ },
    { params: { connect_timeout: 2 }, problem: /connect_timeout: expected a duration/ },
    { params: { token: 5 }, problem: /token: expected a text/ },
  ])('does not start with $params', ({ params, problem: text }) => {
    expect(() => rig.step(replaceMediaUrls, params, { media })).toThrow(text);
  });
});
