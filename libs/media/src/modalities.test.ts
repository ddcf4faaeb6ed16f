import { describe, expect, it } from '@jest/globals';
import { MediaError } from './media-error.ts';
import { type MediaFetchOptions, type Modality } from './options.ts';
import {
  failureOf,
  jpeg,
  loopbackFetcher,
  never,
  optionsWith,
  png,
  startOrigin,
} from './testing.ts';

const bytes = (text: string): Buffer => Buffer.from(text, 'latin1');
const mp4 = bytes('\0\0\0\x18ftypisom');
const webm = bytes('\x1aE\xdf\xa3');
const wav = bytes('RIFF\0\0\0\0WAVE');

interface Case {
  readonly modality: Modality;
  readonly body: Buffer;
  readonly declared?: string;
  readonly options?: Partial<MediaFetchOptions>;
}

/** The type, or the code of the failure. */
async function fetchOf({ modality, body, declared, options }: Case): Promise<string> {
  await using origin = await startOrigin((_, response) => {
    if (declared !== undefined) response.setHeader('content-type', declared);
    response.end(body);
  });
  await using fetcher = loopbackFetcher();
  const ref = { url: `${origin.base}/a`, modality };
  try {
    return (await fetcher.fetch(ref, optionsWith(options), never())).contentType;
  } catch (error) {
    return error instanceof MediaError ? error.code : String(error);
  }
}

const refused = 'media_type_not_allowed';

describe('video and audio (media-fetcher.md 5.7)', () => {
  it.each<[string, Case, string]>([
    ['MP4 without type', { modality: 'video', body: mp4 }, 'video/mp4'],
    ['MP4 as text', { modality: 'video', body: mp4, declared: 'text/plain' }, 'video/mp4'],
    ['WebM', { modality: 'video', body: webm }, 'video/webm'],
    ['QuickTime', { modality: 'video', body: bytes('\0\0\0\x14ftypqt  ') }, 'video/quicktime'],
    ['WebM without a picture', { modality: 'audio', body: webm }, 'audio/webm'],
    ['MP4 without a picture', { modality: 'audio', body: mp4 }, 'audio/mp4'],
    ['WAV as MP3', { modality: 'audio', body: wav, declared: 'audio/mpeg' }, 'audio/wav'],
    ['MP3', { modality: 'audio', body: bytes('ID3\x04') }, 'audio/mpeg'],
    ['FLAC', { modality: 'audio', body: bytes('fLaC') }, 'audio/flac'],
    ['Ogg', { modality: 'audio', body: bytes('OggS') }, 'audio/ogg'],
    ['raw AAC', { modality: 'audio', body: bytes('data'), declared: 'audio/mp4' }, 'audio/mp4'],
    ['a picture as video', { modality: 'video', body: png, declared: 'video/mp4' }, refused],
    ['AVI', { modality: 'video', body: bytes('RIFF\0\0\0\0AVI ') }, refused],
    ['unknown bytes without type', { modality: 'video', body: bytes('data') }, refused],
    ['a page', { modality: 'audio', body: bytes('<html>'), declared: 'audio/wav' }, refused],
    ['a video as picture', { modality: 'image', body: mp4, declared: 'image/png' }, refused],
  ])('%s', async (_, one, expected) => {
    expect(await fetchOf(one)).toBe(expected);
  });

  it('have the types that are listed for them, and with an empty list any', async () => {
    const listed = { allowedTypes: { video: ['video/webm'] } };
    expect(await fetchOf({ modality: 'video', body: mp4, options: listed })).toBe(refused);
    expect(await fetchOf({ modality: 'video', body: webm, options: listed })).toBe('video/webm');
    expect(await fetchOf({ modality: 'image', body: png, options: listed })).toBe('image/png');
    const any = { allowedTypes: { video: [] } };
    const avi = bytes('RIFF\0\0\0\0AVI ');
    expect(await fetchOf({ modality: 'video', body: avi, options: any })).toBe('video/x-msvideo');
  });

  it.each([
    { name: 'one frame', frames: [jpeg()], expected: jpeg().length },
    { name: 'several frames', frames: [jpeg(), jpeg(20), jpeg(30)], expected: 'sum' },
    { name: 'a frame that is none', frames: [jpeg(), png], expected: refused },
    { name: 'an empty frame', frames: [jpeg(), bytes('')], expected: 'media_data_uri_invalid' },
    { name: 'no frame', frames: [bytes('')], expected: 'media_data_uri_invalid' },
    { name: 'too many bytes', frames: [jpeg(300), jpeg(300)], expected: 'media_too_large' },
  ])('[5.7] a list of JPEG frames with $name', async ({ frames, expected }) => {
    const payload = frames.map((frame) => frame.toString('base64')).join(',');
    const uri = Buffer.from(`data:video/jpeg;base64,${payload}`);
    const sum = frames.reduce((total, { length }) => total + length, 0);
    await using fetcher = loopbackFetcher();
    const options = optionsWith({ maxModalityBytes: { video: 500 } });
    const check = () => fetcher.parseDataUri(uri, options, 'video');
    if (typeof expected === 'number' || expected === 'sum') {
      expect(check()).toMatchObject({ contentType: 'video/jpeg', decodedLength: sum });
    } else {
      expect((await failureOf(check)).code).toBe(expected);
    }
  });

  it('[5.7] a list of frames is a video, inline only, and can be left off the list', async () => {
    const uri = Buffer.from(`data:video/jpeg;base64,${jpeg().toString('base64')}`);
    await using fetcher = loopbackFetcher();
    const parse = (modality: Modality, options = optionsWith()) =>
      failureOf(() => fetcher.parseDataUri(uri, options, modality));
    expect((await parse('image')).code).toBe(refused);
    const listed = optionsWith({ allowedTypes: { video: ['video/mp4'] } });
    expect((await parse('video', listed)).code).toBe(refused);
    const served = { modality: 'video', body: bytes('frames'), declared: 'video/jpeg' } as const;
    expect(await fetchOf(served)).toBe(refused);
  });

  it('have caps of their own, inline too', async () => {
    const body = Buffer.concat([mp4, Buffer.alloc(100)]);
    const options = { maxDownloadBytes: 50, maxModalityBytes: { video: body.length } };
    expect(await fetchOf({ modality: 'video', body, options })).toBe('video/mp4');
    expect(await fetchOf({ modality: 'audio', body, options })).toBe('media_too_large');
    const uri = (type: string): Buffer =>
      Buffer.from(`data:${type};base64,${body.toString('base64')}`);
    await using fetcher = loopbackFetcher();
    const { decodedLength } = fetcher.parseDataUri(uri('video/mp4'), optionsWith(options), 'video');
    expect(decodedLength).toBe(body.length);
    const failure = await failureOf(() =>
      fetcher.parseDataUri(uri('audio/mp4'), optionsWith(options), 'audio'),
    );
    expect(failure).toMatchObject({ code: 'media_too_large', limit: 50, actual: body.length });
  });
});
