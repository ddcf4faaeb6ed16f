import {
  type MediaLimits,
  type MediaReference,
  type MediaSource,
  type RequestContext,
} from '@llm-d/pipeline';
import { requestContext } from '@llm-d/pipeline/testing';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { replaceMediaUrls } from './replace-media-urls.ts';
import { Rig } from './testing.ts';

/** Has every URL, as bytes of the type that its path names, and keeps what it is asked to check. */
class AnySource implements MediaSource {
  readonly fetched: MediaReference[] = [];
  readonly checked: [string, string][] = [];

  checkLimits() {}
  checkUrls() {}
  countRemote() {}

  fetchMany(references: readonly MediaReference[]) {
    this.fetched.push(...references);
    return Promise.resolve(
      references.map(({ url }) => ({
        contentType: new URL(url).pathname.slice(1),
        byteLength: 1,
        base64: () => Buffer.from('YQ=='),
      })),
    );
  }

  faultOf({ detail }: { detail: string }): Error {
    return new Error(detail);
  }

  checkDataUri(uri: Uint8Array, modality: string, limits: MediaLimits): number {
    this.checked.push([modality, Buffer.from(uri).toString()]);
    if (limits.allowedTypes?.audio?.includes('audio/wav') === false) {
      throw Object.assign(new Error('no'), {
        ...{ code: 'media_type_not_allowed', stepStatus: 400 },
        ...{ safeMessage: 'type audio/wav is not accepted', index: undefined },
      });
    }
    return 1;
  }

  repairDataUri(): undefined {}
}

let rig: Rig;
let media: AnySource;
beforeEach(async () => {
  rig = await Rig.open();
  media = new AnySource();
});
afterEach(() => rig.close());

const byUrl = (kind: string, url: string): string =>
  `{"type":"${kind}_url","${kind}_url":{"url":"${url}","x":1.0}}`;
const inline = (format: string, data = 'AAAA'): string =>
  `{"type":"input_audio","input_audio":{"data":"${data}","format":"${format}"}}`;
const bodyOf = (...parts: string[]): string => `{"messages":[{"content":[${parts.join(', ')}]}]}`;
const all = { modalities: ['image', 'video', 'audio'] };
const run = (ctx: RequestContext, params = {}, more = {}): Promise<unknown> =>
  rig.step(replaceMediaUrls, params, { media, ...more })(ctx);

describe('video and audio in replace-media-urls (C22)', () => {
  const image = byUrl('image', 'http://h/image/png');
  const video = byUrl('video', 'http://h/video/mp4');
  const audio = byUrl('audio', 'http://h/audio/wav');

  it('pass untouched where only images are handled', async () => {
    const ctx = requestContext({ body: bodyOf(video, audio, inline('wav')) });
    await run(ctx);
    expect(ctx.body.toString()).toBe(bodyOf(video, audio, inline('wav')));
    expect([media.fetched, media.checked, ctx.media]).toEqual([[], [], []]);
  });

  it('become data: URIs in their places where they are handled; entries are made of images', async () => {
    const ctx = requestContext({ body: bodyOf(video, image, inline('mp3'), audio) });
    await run(ctx, all);
    const uri = (kind: string, type: string) => byUrl(kind, `data:${type};base64,YQ==`);
    expect(ctx.body.toString()).toBe(
      bodyOf(
        uri('video', 'video/mp4'),
        uri('image', 'image/png'),
        inline('mp3'),
        uri('audio', 'audio/wav'),
      ),
    );
    expect(media.fetched.map(({ modality }) => modality)).toEqual(['video', 'image', 'audio']);
    expect(ctx.media.map(({ modality }) => modality)).toEqual(['image']);
  });

  it('count as items of the request', async () => {
    const ctx = requestContext({ body: bodyOf(video, image, inline('wav')) });
    await expect(run(ctx, { ...all, max_multimodal_entries: 2 })).rejects.toMatchObject({
      code: 'media_too_many_items',
      message: 'too many multimodal entries: got 3, max 2',
    });
  });

  it.each([
    ['wav', 'audio/wav'],
    ['mp3', 'audio/mpeg'],
    ['flac', 'audio/flac'],
    ['ogg', 'audio/ogg'],
    ['opus', 'audio/ogg'],
    ['m4a', 'audio/mp4'],
    ['aac', 'audio/mp4'],
    ['webm', 'audio/webm'],
  ])('input_audio of format %s is checked as %s', async (format, type) => {
    await run(requestContext({ body: bodyOf(inline(format)) }), all);
    expect(media.checked).toEqual([['audio', `data:${type};base64,AAAA`]]);
  });

  it.each(['wma', 'toString', ''])('input_audio of format "%s" is refused', async (format) => {
    const ctx = requestContext({ body: bodyOf(video, inline(format)) });
    await expect(run(ctx, all)).rejects.toMatchObject({
      ...{ status: 400, code: 'media_type_not_allowed' },
      param: 'messages[0].content[1].input_audio.format',
    });
    // Inline items are judged before any download.
    expect(media.fetched).toEqual([]);
  });

  it('a type that is not on the list is refused with its place, before any download', async () => {
    const params = { ...all, allowed_audio_content_types: ['audio/flac'] };
    const ctx = requestContext({ body: bodyOf(video, inline('wav')) });
    await expect(run(ctx, params)).rejects.toMatchObject({
      ...{ status: 400, code: 'media_type_not_allowed', param: 'messages[0].content[1]' },
      message: 'messages[0].content[1]: type audio/wav is not accepted',
    });
    expect(media.fetched).toEqual([]);
  });

  it('are refused before any download where legs carry token ids', async () => {
    const ctx = requestContext({ body: bodyOf(image, video) });
    await expect(run(ctx, all, { hasTokensInLegs: true })).rejects.toMatchObject({
      ...{ status: 400, code: 'media_modality_not_served', param: 'messages[0].content[1].type' },
    });
    expect(media.fetched).toEqual([]);
    await run(requestContext({ body: bodyOf(image) }), all, { hasTokensInLegs: true });
  });
});
