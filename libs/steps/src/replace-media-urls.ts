import { duration, oneOf, text } from '@llm-d/config';
import { JsonRaw, replaceValue, type SpanPatch } from '@llm-d/json-document';
import {
  BadRequestError,
  defineStep,
  isMediaFault,
  type MediaContent,
  type MediaLimits,
  type MediaReference,
  MediaRefusedError,
  type MediaSource,
  type Modality,
  type RequestContext,
  type StepDependencies,
} from '@llm-d/pipeline';
import { z } from 'zod';
import { audioUri } from './inline-audio.ts';
import { type MediaPart, mediaParts } from './media-parts.ts';
import { modalityNotServed } from './other-media.ts';
import { bytesPerMb, count, flag, httpAddress, mediaMb, positiveInteger } from './params.ts';
import { MediaFetcherUnreachable, RemoteMedia } from './remote-media.ts';

const ownMb = (what: string) =>
  mediaMb.optional().describe(`MB of one ${what}; absent = \`max_download_size\`.`);
const ownTypes = (builtIn: string) =>
  z
    .array(text, { error: 'a list of media types' })
    .optional()
    .describe(`Types accepted instead of ${builtIn}; empty = any.`);

const type = 'replace-media-urls';

const modalities = ['image', 'video', 'audio'] as const;

/** Values by modality, without those that are not configured. */
function byModality<T, R>(
  values: Readonly<Record<Modality, T | undefined>>,
  convert: (value: T) => R,
): Partial<Record<Modality, R>> {
  const own: Partial<Record<Modality, R>> = {};
  for (const modality of modalities) {
    const value = values[modality];
    if (value !== undefined) own[modality] = convert(value);
  }
  return own;
}

/** Makes every media part self-contained: downloads what is given by URL and puts it in as a `data:` URI. */
export const replaceMediaUrls = defineStep({
  type,
  params: z.strictObject({
    mode: oneOf('local', 'remote')
      .prefault('local')
      .describe(
        '`remote` has a [media fetcher](apps/media-fetcher.md) download; the stricter of both configurations counts.',
      ),
    address: httpAddress.optional().describe('The media fetcher, with `mode: remote`.'),
    token: text
      .prefault('')
      .describe('Shown to the media fetcher; best set by its environment variable.'),
    fallback: oneOf('fail', 'local')
      .prefault('fail')
      .describe(
        'When no media fetcher is there: `fail` answers 502, `local` downloads in this process.',
      ),
    connect_timeout: duration
      .prefault('2s')
      .describe('How long a connection to the media fetcher may take.'),
    download_timeout: duration
      .prefault('10s')
      .describe('Whole time of one item: name resolution, redirects and body.'),
    max_concurrent_downloads: positiveInteger
      .prefault(10)
      .describe('Downloads of one request at the same time.'),
    max_multimodal_entries: count.prefault(0).describe('Media items of one request; 0 = no limit.'),
    max_download_size: mediaMb.prefault(10).describe('MB of one item.'),
    // Keeps the body of the legs below common gateway limits.
    max_total_download_size: mediaMb.prefault(48).describe('MB of all items of one request.'),
    allow_private_networks: flag
      .prefault(false)
      .describe('Opens the private IPv4 ranges (RFC 1918) and nothing else.'),
    allowed_domains: z
      .array(z.string(), { error: 'a list of host names' })
      .prefault([])
      .describe('Hosts that may be asked; empty = any that the address guard allows.'),
    modalities: z
      .array(oneOf(...modalities))
      .prefault(['image'])
      .describe('Kinds of media that are made self-contained; others pass untouched.'),
    max_image_download_size: ownMb('image'),
    max_video_download_size: ownMb('video clip'),
    max_audio_download_size: ownMb('audio clip'),
    allowed_image_content_types: ownTypes('JPEG, PNG, GIF and WebP'),
    allowed_video_content_types: ownTypes('MP4, WebM and QuickTime'),
    allowed_audio_content_types: ownTypes('WAV, MP3, Ogg, FLAC, MP4 and WebM'),
  }),
  create(params, { media, openUpstream, hasTokensInLegs }) {
    const maxEntries = params.max_multimodal_entries;
    const limits: MediaLimits = {
      downloadTimeoutMs: params.download_timeout,
      maxConcurrentDownloads: params.max_concurrent_downloads,
      maxDownloadBytes: params.max_download_size * bytesPerMb,
      maxTotalDownloadBytes: params.max_total_download_size * bytesPerMb,
      allowPrivateNetworks: params.allow_private_networks,
      allowedDomains: params.allowed_domains,
      maxModalityBytes: byModality(
        {
          image: params.max_image_download_size,
          video: params.max_video_download_size,
          audio: params.max_audio_download_size,
        },
        (size) => size * bytesPerMb,
      ),
      allowedTypes: byModality(
        {
          image: params.allowed_image_content_types,
          video: params.allowed_video_content_types,
          audio: params.allowed_audio_content_types,
        },
        (types) => types.map((type) => type.trim().toLowerCase()),
      ),
    };
    media.checkLimits(limits);
    const remoteMedia =
      params.mode === 'remote' ? openRemoteMedia(params, media, openUpstream) : undefined;
    const fetchMany = async (
      references: readonly MediaReference[],
      ctx: RequestContext,
    ): Promise<readonly MediaContent[]> => {
      try {
        if (remoteMedia) return await remoteMedia.fetchMany(references, limits, ctx);
      } catch (error) {
        if (!(error instanceof MediaFetcherUnreachable)) throw error;
        if (params.fallback === 'fail') throw error.cause;
        ctx.log.warn({ step: type }, 'no media fetcher is there, media is downloaded here');
      }
      return media.fetchMany(references, limits, ctx.signal);
    };
    return async (ctx) => {
      const parts = mediaParts(ctx, params.modalities);
      if (maxEntries > 0 && parts.length > maxEntries) {
        throw new BadRequestError(
          `too many multimodal entries: got ${parts.length}, max ${maxEntries}`,
          { code: 'media_too_many_items', param: ctx.api === 'responses' ? 'input' : 'messages' },
        );
      }
      const other = hasTokensInLegs && parts.find(({ modality }) => modality !== 'image');
      if (other) throw modalityNotServed(other.modality, `${other.path}.type`);
      const remote: MediaPart[] = [];
      for (const item of parts) {
        const bytes = item.url.plainBytes() ?? Buffer.from(item.url.text() ?? '');
        if (item.format === undefined && !isDataUri(bytes)) {
          remote.push(item);
          continue;
        }
        const uri = item.format === undefined ? bytes : audioUri(item, bytes);
        await refusing([item], () => media.checkDataUri(uri, item.modality, limits));
      }
      if (remote.length > 0) {
        const references = remote.map(({ url, modality }) => ({ url: url.text() ?? '', modality }));
        const contents = await refusing(remote, () => fetchMany(references, ctx));
        ctx.body = ctx.body.patch(contents.flatMap((content, i) => inlined(remote[i], content)));
      }
      // Render describes images only, and features are matched with these entries by position.
      const images = parts.filter(({ modality }) => modality === 'image');
      ctx.media = images.map(({ modality, part }) => ({ modality, part }));
      return 'continue';
    };
  },
});

const idleConnectionMs = 30_000;

/** @throws Error for the operator when there is no address. */
function openRemoteMedia(
  params: { address?: string | undefined; token: string; connect_timeout: number },
  { faultOf }: MediaSource,
  openUpstream: StepDependencies['openUpstream'],
): RemoteMedia {
  const { address, token, connect_timeout: connectTimeoutMs } = params;
  if (address === undefined) {
    throw new Error('address: expected the address of a media fetcher with mode: remote');
  }
  const client = openUpstream({
    address,
    connectTimeoutMs,
    // The deadline of a call depends on how much it asks for.
    ...{ headersTimeoutMs: 0, bodyTimeoutMs: 0, callTimeoutMs: 0 },
    idleTimeoutMs: idleConnectionMs,
    maxAnswerBytes: 0,
  });
  return new RemoteMedia({ step: type, client, token, faultOf });
}

const scheme = Buffer.from('data:');

function isDataUri(url: Uint8Array): boolean {
  return scheme.every((byte, i) => byte === ((url[i] ?? 0) | 0x20));
}

const quote = Buffer.from('"');

function inlined(item: MediaPart | undefined, content: MediaContent): SpanPatch[] {
  if (!item) return [];
  const start = Buffer.from(`"data:${content.contentType};base64,`);
  const payload = Buffer.from(content.base64(), 'latin1');
  return [replaceValue(item.url, new JsonRaw([start, payload, quote]))];
}

/** Names the part that a media fault is about. */
async function refusing<T>(items: readonly MediaPart[], work: () => T | Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!isMediaFault(error)) throw error;
    const item = items[error.index ?? 0];
    throw new MediaRefusedError(error, { cause: error, ...(item ? { param: item.path } : {}) });
  }
}
