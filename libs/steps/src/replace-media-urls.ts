import { duration } from '@llm-d/config';
import { JsonRaw, replaceValue, type SpanPatch } from '@llm-d/json-document';
import {
  BadRequestError,
  defineStep,
  isMediaFault,
  type MediaContent,
  type MediaLimits,
  MediaRefusedError,
} from '@llm-d/pipeline';
import { z } from 'zod';
import { type MediaPart, mediaParts } from './media-parts.ts';
import { bytesPerMb, count, flag, mediaMb, positiveInteger } from './params.ts';

/** Makes every media part self-contained: downloads what is given by URL and puts it in as a `data:` URI. */
export const replaceMediaUrls = defineStep({
  type: 'replace-media-urls',
  params: z.strictObject({
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
  }),
  create(params, { media }) {
    const maxEntries = params.max_multimodal_entries;
    const limits: MediaLimits = {
      downloadTimeoutMs: params.download_timeout,
      maxConcurrentDownloads: params.max_concurrent_downloads,
      maxDownloadBytes: params.max_download_size * bytesPerMb,
      maxTotalDownloadBytes: params.max_total_download_size * bytesPerMb,
      allowPrivateNetworks: params.allow_private_networks,
      allowedDomains: params.allowed_domains,
    };
    media.checkLimits(limits);
    return async (ctx) => {
      const parts = mediaParts(ctx);
      if (maxEntries > 0 && parts.length > maxEntries) {
        throw new BadRequestError(
          `too many multimodal entries: got ${parts.length}, max ${maxEntries}`,
          { code: 'media_too_many_items', param: ctx.api === 'responses' ? 'input' : 'messages' },
        );
      }
      const remote: MediaPart[] = [];
      for (const item of parts) {
        const bytes = item.url.plainBytes() ?? Buffer.from(item.url.text() ?? '');
        if (!isDataUri(bytes)) remote.push(item);
        else await refusing([item], () => media.checkDataUri(bytes, 'image', limits));
      }
      if (remote.length > 0) {
        const references = remote.map(({ url }) => ({
          url: url.text() ?? '',
          modality: 'image' as const,
        }));
        const contents = await refusing(remote, () =>
          media.fetchMany(references, limits, ctx.signal),
        );
        ctx.body = ctx.body.patch(contents.flatMap((content, i) => inlined(remote[i], content)));
      }
      ctx.media = parts.map(({ part }) => ({ modality: 'image', part }));
      return 'continue';
    };
  },
});

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
