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
} from '@llm-d/pipeline';
import { audioUri } from './inline-audio.ts';
import { type MediaPart, mediaParts } from './media-parts.ts';
import { downloads } from './media-downloads.ts';
import { modalityNotServed } from './other-media.ts';
import { mediaLimits, replaceMediaUrlsParams } from './replace-media-urls-params.ts';

const type = 'replace-media-urls';

/** Makes every media part self-contained: downloads what is given by URL and puts it in as a `data:` URI. */
export const replaceMediaUrls = defineStep({
  type,
  params: replaceMediaUrlsParams,
  create(params, { media: source, openUpstream, hasTokensInLegs }) {
    const maxEntries = params.max_multimodal_entries;
    const limits = mediaLimits(params);
    const policy = params.origin_status_policy;
    source.checkLimits(limits);
    const media = downloads(type, params, { media: source, openUpstream });
    const rules: InlineRules = { media: source, limits, repairs: params.repair_data_uris };
    return async (ctx) => {
      ctx.signal.throwIfAborted();
      const parts = mediaParts(ctx, params.modalities);
      if (maxEntries > 0 && parts.length > maxEntries) {
        throw new BadRequestError(
          `too many multimodal entries: got ${parts.length}, max ${maxEntries}`,
          { code: 'media_too_many_items', param: ctx.api === 'responses' ? 'input' : 'messages' },
        );
      }
      const other = hasTokensInLegs && parts.find(({ modality }) => modality !== 'image');
      if (other) throw modalityNotServed(other.modality, `${other.path}.type`);
      const byUrl: MediaPart[] = [];
      const references: MediaReference[] = [];
      const patches: SpanPatch[] = [];
      let inlineBytes = 0;
      for (const [index, item] of parts.entries()) {
        const { format, url, modality } = item;
        const bytes = url.plainBytes() ?? Buffer.from(url.text() ?? '');
        if (format === undefined && !isDataUri(bytes)) {
          byUrl.push(item);
          references.push({ url: url.text() ?? '', modality, index });
          continue;
        }
        try {
          const uri = format === undefined ? bytes : audioUri(item, bytes);
          const checked = checkInline(uri, item, rules);
          inlineBytes += checked.byteLength;
          if (checked.repaired) patches.push(checked.repaired);
        } catch (error) {
          // Of several failures the client hears of the first.
          if (references.length > 0) {
            await refusing(byUrl, policy, () => media.check(references, limits, ctx));
          }
          throw refused(error, item, policy);
        }
      }
      if (parts.length > 0) {
        const contents = await refusing(byUrl, policy, () =>
          media.fetch(references, limits, ctx, inlineBytes),
        );
        patches.push(...contents.flatMap((content, i) => inlined(byUrl[i], content)));
      }
      if (patches.length > 0) ctx.body = ctx.body.patch(patches);
      // Render describes images only, and features are matched with these entries by position.
      const images = parts.filter(({ modality }) => modality === 'image');
      ctx.media = images.map(({ modality, part }) => ({ modality, part }));
      return 'continue';
    };
  },
});

const scheme = Buffer.from('data:');

function isDataUri(url: Uint8Array): boolean {
  return scheme.every((byte, i) => byte === ((url[i] ?? 0) | 0x20));
}

/** What is done about inline items. */
interface InlineRules {
  readonly media: MediaSource;
  readonly limits: MediaLimits;
  readonly repairs: boolean;
}

/** The bytes of an inline item, and the edit that repairs it where that is needed and allowed. */
function checkInline(
  uri: Uint8Array,
  item: MediaPart,
  { media, limits, repairs }: InlineRules,
): { readonly byteLength: number; readonly repaired?: SpanPatch } {
  try {
    return { byteLength: media.checkDataUri(uri, item.modality, limits) };
  } catch (error) {
    const isMalformed = isMediaFault(error) && error.code === 'media_data_uri_invalid';
    const repaired = repairs && isMalformed ? media.repairDataUri(uri) : undefined;
    if (repaired === undefined) throw error;
    const byteLength = media.checkDataUri(repaired, item.modality, limits);
    // Plain base64 has no head of its own; the one of the URI was made here.
    const start = item.format === undefined ? 0 : repaired.indexOf(comma) + 1;
    const text = new JsonRaw([quote, repaired.subarray(start), quote]);
    return { byteLength, repaired: replaceValue(item.url, text) };
  }
}

const comma = 0x2c;
const quote = Buffer.from('"');

function inlined(item: MediaPart | undefined, content: MediaContent): SpanPatch[] {
  if (!item) return [];
  const start = Buffer.from(`"data:${content.contentType};base64,`);
  return [replaceValue(item.url, new JsonRaw([start, content.base64(), quote]))];
}

/** Statuses of an origin that may pass; they are never the client's fault. */
const passing = new Set([408, 425, 429]);

/** Names the part that a media fault is about; one of all parts together names none. */
async function refusing<T>(
  items: readonly MediaPart[],
  policy: 'map' | 'forward',
  work: () => Promise<T>,
): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const index = isMediaFault(error) ? error.index : undefined;
    throw refused(error, index === undefined ? undefined : items[index], policy);
  }
}

/** What the client is told of a fault; other errors as they are. */
function refused(error: unknown, item: MediaPart | undefined, policy: 'map' | 'forward'): unknown {
  if (!isMediaFault(error)) return error;
  const { originStatus = 0, stepStatus } = error;
  const isForwarded =
    policy === 'forward' && originStatus >= 400 && originStatus < 500 && !passing.has(originStatus);
  return new MediaRefusedError(
    error,
    { cause: error, ...(item ? { param: item.path } : {}) },
    isForwarded ? originStatus : stepStatus,
  );
}
