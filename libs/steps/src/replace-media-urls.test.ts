import {
  ClientGoneError,
  type MediaContent,
  type MediaLimits,
  type MediaReference,
  type MediaSource,
  type ReportedMediaFault,
  type RequestContext,
} from '@llm-d/pipeline';
import { requestContext } from '@llm-d/pipeline/testing';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { replaceMediaUrls } from './replace-media-urls.ts';
import { inlineMedia, Rig } from './testing.ts';

class Fault extends Error {
  readonly code: string;
  readonly stepStatus: number;
  readonly safeMessage: string;
  readonly index: number | undefined;

  constructor(code: string, stepStatus: number, safeMessage: string, index?: number) {
    super(`SECRET ${code}`);
    [this.code, this.stepStatus, this.safeMessage, this.index] = [
      code,
      stepStatus,
      safeMessage,
      index,
    ];
  }
}

/** A source that knows some URLs and some types of inline items. */
class SmallSource implements MediaSource {
  readonly asked: { references: readonly MediaReference[]; limits: MediaLimits }[] = [];
  readonly checked: string[] = [];
  inlineBytes = 0;
  /** Never answers; ends with the signal. */
  isStalled = false;

  checkLimits({ allowedDomains }: MediaLimits): void {
    if (allowedDomains.includes('a b')) throw new Error('allowed_domains: "a b" is no host name');
  }

  async fetchMany(
    references: readonly MediaReference[],
    limits: MediaLimits,
    { signal }: Pick<RequestContext, 'signal'>,
    inlineBytes: number,
  ): Promise<readonly MediaContent[]> {
    this.inlineBytes = inlineBytes;
    if (references.length > 0) this.asked.push({ references, limits });
    if (this.isStalled) {
      await new Promise((_, reject) => {
        signal.addEventListener('abort', () => reject(signal.reason as Error));
      });
    }
    signal.throwIfAborted();
    return references.map(({ url }, index) => {
      const type = /^https?:\/\/media\/(jpeg|png)\//.exec(url)?.[1];
      if (!type) throw new Fault('media_blocked', 400, 'the address is not allowed', index);
      const bytes = Buffer.from(url.slice(-1));
      return {
        contentType: `image/${type}`,
        byteLength: bytes.length,
        base64: () => Buffer.from(bytes.toString('base64')),
      };
    });
  }

  checkUrls(references: readonly MediaReference[]): void {
    const index = references.findIndex(({ url }) => url.includes('@'));
    if (index >= 0) throw new Fault('media_credentials', 400, 'no user names in URLs', index);
  }

  countRemote(): void {}

  checkDataUri(uri: Uint8Array): number {
    const text = Buffer.from(uri).toString();
    this.checked.push(text);
    if (!/^data:image\/\w+;base64,/i.test(text))
      throw new Fault('media_type', 400, 'an image type is expected');
    if (text.includes('-')) throw new Fault('media_data_uri_invalid', 400, 'not standard base64');
    return text.length;
  }

  repairDataUri(uri: Uint8Array): Uint8Array {
    return Buffer.from(Buffer.from(uri).toString().replaceAll('-', '+'));
  }

  faultOf({ code, detail, index }: ReportedMediaFault): Error {
    return new Fault(code, 400, detail, index);
  }
}

let rig: Rig;
let media: SmallSource;
beforeEach(async () => {
  rig = await Rig.open();
  media = new SmallSource();
});
afterEach(() => rig.close());

const part = (url: string, more = ''): string =>
  `{"type":"image_url","image_url":{ "detail":"low","url":${JSON.stringify(url)}${more}}}`;
const bodyOf = (...parts: string[]): string =>
  `{"model":"m","messages":[{"content":[{"type":"text","text":"é"},${parts.join(', ')}]}],"seed":1.0}`;
const run = (ctx: RequestContext, params = {}): Promise<unknown> =>
  rig.step(replaceMediaUrls, params, { media })(ctx);
const partsOf = (ctx: RequestContext): string[] =>
  ctx.media.map((entry) => (entry.part ? ctx.body.extract(entry.part).toString() : ''));

describe('replace-media-urls', () => {
  it('puts the bytes in the place of a URL and changes nothing else', async () => {
    const ctx = requestContext({ body: bodyOf(part('http://media/jpeg/a', ',"x":[ 1.0 ]')) });
    expect(await run(ctx)).toBe('continue');
    expect(ctx.body.toString()).toBe(bodyOf(part('data:image/jpeg;base64,YQ==', ',"x":[ 1.0 ]')));
    expect(ctx.media).toEqual([{ modality: 'image', part: expect.anything() }]);
    expect(media.asked[0]?.references).toEqual([
      { url: 'http://media/jpeg/a', modality: 'image', index: 0 },
    ]);
  });

  it.each([
    {
      name: 'three by URL',
      urls: ['http://media/png/a', 'http://media/png/b', 'http://media/jpeg/c'],
    },
    { name: 'by URL, then inline', urls: ['http://media/png/a', 'data:image/gif;base64,eA=='] },
    { name: 'inline, then by URL', urls: ['data:image/gif;base64,eA==', 'http://media/png/a'] },
    { name: 'the same one twice', urls: ['http://media/png/a', 'http://media/png/a'] },
  ])('keeps the order of images: $name', async ({ urls }) => {
    const ctx = requestContext({ body: bodyOf(...urls.map((url) => part(url))) });
    await run(ctx);
    const wanted = urls.map((url) => {
      const [, type, name] = /media\/(\w+)\/(\w)$/.exec(url) ?? [];
      return name ? `data:image/${type};base64,${Buffer.from(name).toString('base64')}` : url;
    });
    expect(partsOf(ctx)).toEqual(wanted.map((url) => part(url)));
    expect(ctx.body.toString()).toBe(bodyOf(...wanted.map((url) => part(url))));
  });

  it('puts the bytes into messages and function results of a response', async () => {
    const body = (...urls: string[]): string => {
      const [a, b] = urls.map(
        (url) => `{"type":"input_image","image_url":"${url}","detail":"low"}`,
      );
      return `{"input":[{"content":[${a}]},{"type":"function_call_output","output":[${b}]}],"seed":1.0}`;
    };
    const ctx = requestContext({
      api: 'responses',
      body: body('http://media/png/a', 'http://media/jpeg/b'),
    });
    await run(ctx);
    expect(ctx.body.toString()).toBe(
      body('data:image/png;base64,YQ==', 'data:image/jpeg;base64,Yg=='),
    );
    expect(ctx.media).toHaveLength(2);
    await expect(run(ctx, { max_multimodal_entries: 1 })).rejects.toMatchObject({ param: 'input' });
  });

  it('leaves inline items as they are, in whatever letters their scheme is', async () => {
    const urls = ['data:image/png;base64,eA==', 'DATA:IMAGE/PNG;base64,eA=='];
    const body = bodyOf(...urls.map((url) => part(url)));
    const ctx = requestContext({ body });
    await run(ctx);
    expect(ctx.body.toString()).toBe(body);
    expect(media.checked).toEqual(urls);
    expect(media.asked).toEqual([]);
  });

  it('understands a URL that is written with escapes', async () => {
    const escaped = bodyOf(part('X')).replace('"X"', '"http:\\/\\/media\\/png\\/\\u0061"');
    const ctx = requestContext({ body: escaped });
    await run(ctx);
    expect(ctx.body.toString()).toContain('"url":"data:image/png;base64,YQ=="');
    const inline = requestContext({
      body: bodyOf(part('X')).replace('"X"', '"d\\u0061ta:image\\/png;base64,eA=="'),
    });
    await run(inline);
    expect(media.checked).toEqual(['data:image/png;base64,eA==']);
  });

  it.each([
    { api: 'chat', body: '{"messages":[{"content":"text"}]}' },
    { api: 'chat', body: '{}' },
    { api: 'completions', body: bodyOf(part('http://media/png/a')) },
    { api: 'generate', body: bodyOf(part('http://media/png/a')) },
  ] as const)('does nothing for $body on $api', async ({ api, body }) => {
    const ctx = requestContext({ api, body });
    expect(await run(ctx)).toBe('continue');
    expect(ctx.media).toEqual([]);
    expect(ctx.body.toString()).toBe(body);
    expect(media.asked).toEqual([]);
  });

  it('refuses more items than allowed before any download', async () => {
    const body = bodyOf(
      part('http://media/png/a'),
      part('data:image/png;base64,eA=='),
      part('http://media/png/b'),
    );
    const ctx = requestContext({ body });
    await expect(run(ctx, { max_multimodal_entries: 2 })).rejects.toMatchObject({
      status: 400,
      code: 'media_too_many_items',
      message: 'too many multimodal entries: got 3, max 2',
    });
    expect(media.asked).toEqual([]);
    expect(ctx.media).toEqual([]);
    await run(requestContext({ body }), { max_multimodal_entries: 3 });
  });

  it.each([
    {
      urls: ['http://media/png/a', 'http://10.0.0.1/x'],
      param: 'messages[0].content[2]',
      text: 'the address is not allowed',
    },
    {
      urls: ['data:image/png;base64,eA==', 'data:text/html;base64,eA=='],
      param: 'messages[0].content[2]',
      text: 'an image type is expected',
    },
    {
      urls: ['data:image/png;base64,eA==', 'ftp://x/y'],
      param: 'messages[0].content[2]',
      text: 'the address is not allowed',
    },
  ])('names the item that cannot be had: $param', async ({ urls, param, text }) => {
    const ctx = requestContext({ body: bodyOf(...urls.map((url) => part(url))) });
    await expect(run(ctx)).rejects.toMatchObject({
      name: 'MediaRefusedError',
      status: 400,
      param,
      message: `${param}: ${text}`,
      cause: expect.any(Fault),
    });
    expect(ctx.media).toEqual([]);
  });

  it.each([
    { name: 'a URL, then inline', urls: ['http://u@media/a', 'data:text/html;base64,eA=='], at: 1 },
    { name: 'inline, then a URL', urls: ['data:text/html;base64,eA==', 'http://u@media/a'], at: 1 },
    {
      name: 'a good URL before inline',
      urls: ['http://media/png/a', 'data:text/html;base64,eA==', 'http://u@media/a'],
      at: 2,
    },
  ])('of several bad items names the first, and downloads none: $name', async ({ urls, at }) => {
    const ctx = requestContext({ body: bodyOf(...urls.map((url) => part(url))) });
    const param = `messages[0].content[${at}]`;
    await expect(run(ctx)).rejects.toMatchObject({ name: 'MediaRefusedError', param });
    expect(media.asked).toEqual([]);
  });

  it('counts inline items towards the total of the request', async () => {
    const uri = 'data:image/png;base64,eA==';
    await run(requestContext({ body: bodyOf(part(uri), part('http://media/png/a'), part(uri)) }));
    expect(media.inlineBytes).toBe(2 * uri.length);
  });

  it('[120] repairs inline items only where that is allowed', async () => {
    const body = bodyOf(part('data:image/png;base64,a-b='), part('http://media/png/a'));
    const refused = run(requestContext({ body }));
    await expect(refused).rejects.toMatchObject({ code: 'media_data_uri_invalid' });
    const ctx = requestContext({ body });
    await run(ctx, { repair_data_uris: true });
    expect(ctx.body.toString()).toBe(
      bodyOf(part('data:image/png;base64,a+b='), part('data:image/png;base64,YQ==')),
    );
  });

  it.each([
    { policy: 'map', originStatus: 401, status: 400 },
    { policy: 'forward', originStatus: 401, status: 401 },
    { policy: 'forward', originStatus: 404, status: 404 },
    { policy: 'forward', originStatus: 429, status: 400 },
    { policy: 'forward', originStatus: 500, status: 400 },
    { policy: 'forward', originStatus: undefined, status: 400 },
  ])('with $policy makes $status of an origin’s $originStatus', async (row) => {
    const { policy, originStatus, status } = row;
    media.fetchMany = () =>
      Promise.reject(Object.assign(new Fault('media_x', 400, 'no', 0), { originStatus }));
    const ctx = requestContext({ body: bodyOf(part('http://media/png/a')) });
    const refused = run(ctx, { origin_status_policy: policy });
    await expect(refused).rejects.toMatchObject({ status });
  });

  it('passes the client’s leaving on to the downloads', async () => {
    const client = new AbortController();
    media.isStalled = true;
    const running = run(
      requestContext({ body: bodyOf(part('http://media/png/a')), signal: client.signal }),
    );
    client.abort(new ClientGoneError());
    await expect(running).rejects.toMatchObject({ code: 'CLIENT_GONE' });
  });

  it('looks at no item once the client has left', async () => {
    const signal = AbortSignal.abort(new ClientGoneError());
    const ctx = requestContext({ body: bodyOf(part('data:malformed')), signal });
    await expect(run(ctx)).rejects.toMatchObject({ code: 'CLIENT_GONE' });
    expect(media.checked).toEqual([]);
  });

  it('lets faults of its own through', async () => {
    const broken: MediaSource = {
      ...inlineMedia,
      fetchMany: () => Promise.reject(new TypeError('bug')),
    };
    const ctx = requestContext({ body: bodyOf(part('http://media/png/a')) });
    await expect(rig.step(replaceMediaUrls, {}, { media: broken })(ctx)).rejects.toThrow(TypeError);
  });
});

describe('the parameters of replace-media-urls', () => {
  it('have defaults', async () => {
    await run(requestContext({ body: bodyOf(part('http://media/png/a')) }));
    expect(media.asked[0]?.limits).toEqual({
      downloadTimeoutMs: 10_000,
      maxConcurrentDownloads: 10,
      maxDownloadBytes: 10_485_760,
      maxTotalDownloadBytes: 50_331_648,
      allowPrivateNetworks: false,
      allowedDomains: [],
      maxModalityBytes: {},
      allowedTypes: {},
      maxRedirects: 5,
      maxRetries: 1,
      contentCheck: 'sniff',
      decodesStrictly: false,
      cacheMode: 'default',
      transcodeImageTypes: [],
    });
  });

  it('reach the source', async () => {
    const params = {
      download_timeout: '1.5s',
      max_concurrent_downloads: 5,
      max_download_size: 5.0,
      max_total_download_size: 6,
      allow_private_networks: true,
      allowed_domains: ['media'],
      max_video_download_size: 7,
      allowed_audio_content_types: ['audio/WAV'],
      allowed_image_content_types: [],
      max_redirects: 0,
      max_retries: 3,
      content_check: 'strict',
      strict_decode: true,
      cache: 'no-store',
      transcode_image_types: ['image/avif'],
      transform: 'fit',
      transform_max_pixels: 1_003_520,
      transform_factor: 32,
      transform_output: 'png',
      transform_background: '#000000',
    };
    await run(requestContext({ body: bodyOf(part('http://media/png/a')) }), params);
    expect(media.asked[0]?.limits).toEqual({
      downloadTimeoutMs: 1500,
      maxConcurrentDownloads: 5,
      maxDownloadBytes: 5_242_880,
      maxTotalDownloadBytes: 6_291_456,
      allowPrivateNetworks: true,
      allowedDomains: ['media'],
      maxModalityBytes: { video: 7_340_032 },
      allowedTypes: { audio: ['audio/wav'], image: [] },
      maxRedirects: 0,
      maxRetries: 3,
      contentCheck: 'strict',
      decodesStrictly: true,
      cacheMode: 'no-store',
      transcodeImageTypes: ['image/avif'],
      transform: {
        mode: 'fit',
        factor: 32,
        minPixels: 3_136,
        maxPixels: 1_003_520,
        output: 'png',
        background: '#000000',
        bakesOrientation: false,
      },
    });
  });

  it.each([
    { params: { download_timeout: 'abc' }, key: 'download_timeout' },
    { params: { download_timeout: '10' }, key: 'download_timeout' },
    { params: { max_concurrent_downloads: 0 }, key: 'max_concurrent_downloads' },
    { params: { max_concurrent_downloads: -1 }, key: 'max_concurrent_downloads' },
    { params: { max_multimodal_entries: -1 }, key: 'max_multimodal_entries' },
    { params: { max_download_size: 0 }, key: 'max_download_size' },
    { params: { max_download_size: -1 }, key: 'max_download_size' },
    { params: { max_download_size: 1e15 }, key: 'max_download_size' },
    { params: { max_total_download_size: 0 }, key: 'max_total_download_size' },
    { params: { allow_private_networks: 'yes' }, key: 'allow_private_networks' },
    { params: { max_video_download_size: 0 }, key: 'max_video_download_size' },
    { params: { allowed_audio_content_types: 'audio/wav' }, key: 'allowed_audio_content_types' },
    { params: { allowed_video_content_types: [5] }, key: 'allowed_video_content_types: 0' },
    { params: { max_retries: -1 }, key: 'max_retries' },
    { params: { content_check: 'loose' }, key: 'content_check' },
    { params: { origin_status_policy: 'relay' }, key: 'origin_status_policy' },
    { params: { transform: 'fit' }, key: 'transform_max_pixels' },
    { params: { transform: 'fill' }, key: 'transform' },
    { params: { transform_background: 'white' }, key: 'transform_background' },
    { params: { transcode_image_types: ['image/svg+xml'] }, key: 'transcode_image_types: 0' },
    { params: { modalities: ['text'] }, key: 'modalities: 0' },
    { params: { modalities: 'image' }, key: 'modalities' },
    { params: { allowed_domains: 'media' }, key: 'allowed_domains' },
    { params: { allowed_domains: ['media', 5] }, key: 'allowed_domains: 1' },
    { params: { allowed_domains: ['a b'] }, key: 'allowed_domains' },
  ])('end the start when they are $params', ({ params, key }) => {
    expect(() => rig.step(replaceMediaUrls, params, { media })).toThrow(
      `replace-media-urls: ${key}: `,
    );
  });
});
