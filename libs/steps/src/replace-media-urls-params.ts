import { duration, oneOf, setting, text } from '@llm-d/config';
import { type ImageTransform, type MediaLimits, type Modality } from '@llm-d/pipeline';
import { z } from 'zod';
import { bytesPerMb, count, flag, upstreamAddress, mediaMb, positiveInteger } from './params.ts';

const ownMb = (what: string) =>
  mediaMb.optional().describe(`MB of one ${what}; absent = \`max_download_size\`.`);
const ownTypes = (builtIn: string) =>
  z
    .array(text, { error: 'a list of media types' })
    .optional()
    .describe(`Types accepted instead of ${builtIn}; empty = any.`);

const modalities = ['image', 'video', 'audio'] as const;

/** Parameters of `replace-media-urls`. */
export const replaceMediaUrlsParams = z.strictObject({
  mode: oneOf('local', 'remote')
    .prefault('local')
    .describe(
      '`remote` has a [media fetcher](apps/media-fetcher.md) download, of whose configuration and this one the stricter counts.',
    ),
  address: upstreamAddress.optional().describe('The media fetcher, with `mode: remote`.'),
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
  max_redirects: count
    .prefault(5)
    .describe('Redirects of one item, each checked as the first URL.'),
  max_retries: count
    .prefault(1)
    .describe('Further attempts after a failure that may pass, within `download_timeout`.'),
  content_check: oneOf('off', 'sniff', 'strict')
    .prefault('sniff')
    .describe(
      'What decides the type: `off` the origin, `sniff` the bytes where they are known, `strict` known bytes alone.',
    ),
  strict_decode: flag
    .prefault(false)
    .describe('With `content_check: strict`: decodes every downloaded image once.'),
  origin_status_policy: oneOf('map', 'forward')
    .prefault('map')
    .describe(
      "An origin's own 4xx (except 408, 425 and 429): `map` answers 400, `forward` the same status.",
    ),
  repair_data_uris: flag
    .prefault(false)
    .describe('Rewrites inline base64 that is not canonical instead of refusing it.'),
  cache: oneOf('default', 'reload', 'no-store')
    .prefault('default')
    .describe('How `media.cache` is used: `reload` stores only, `no-store` not at all.'),
  transcode_image_types: z
    .array(oneOf('image/avif', 'image/tiff'))
    .prefault([])
    .describe('Types that are accepted and converted to JPEG or lossless WebP.'),
  transform: oneOf('off', 'fit')
    .prefault('off')
    .describe('`fit`: shrinks downloaded images to the size that the model would make of them.'),
  transform_max_pixels: positiveInteger
    .optional()
    .describe("The model's limit: larger images are shrunk. Required with `fit`."),
  transform_min_pixels: positiveInteger.prefault(3136).describe("The model's least pixels."),
  transform_factor: positiveInteger
    .prefault(28)
    .describe('Sides become multiples of it: 28 for Qwen2-VL and Qwen2.5-VL, 32 for Qwen3-VL.'),
  transform_output: oneOf('auto', 'jpeg', 'webp_lossless', 'png')
    .prefault('auto')
    .describe('`auto`: JPEG for lossy images without transparency, else lossless WebP.'),
  transform_background: setting('a colour such as #ffffff', (value) =>
    typeof value === 'string' && /^#[0-9a-f]{6}$/i.test(value) ? value : undefined,
  )
    .prefault('#ffffff')
    .describe("Stands behind transparency in JPEG; must be the reader's."),
  transform_bake_orientation: flag
    .prefault(false)
    .describe('Also turns small images upright, for readers that ignore EXIF.'),
});

type Params = z.output<typeof replaceMediaUrlsParams>;

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

/** The limits of a step in units of the program. Throws an Error for parameters that do not fit together. */
export function mediaLimits(params: Params): MediaLimits {
  const transform = imageTransform(params);
  return {
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
    maxRedirects: params.max_redirects,
    maxRetries: params.max_retries,
    contentCheck: params.content_check,
    decodesStrictly: params.strict_decode,
    cacheMode: params.cache,
    transcodeImageTypes: params.transcode_image_types,
    ...(transform && { transform }),
  };
}

function imageTransform(params: Params): ImageTransform | undefined {
  const { transform: mode, transform_max_pixels: maxPixels } = params;
  if (mode === 'off') return undefined;
  if (maxPixels === undefined) {
    throw new Error('transform_max_pixels: expected a positive integer with transform: fit');
  }
  return {
    mode,
    maxPixels,
    minPixels: params.transform_min_pixels,
    factor: params.transform_factor,
    output: params.transform_output,
    background: params.transform_background,
    bakesOrientation: params.transform_bake_orientation,
  };
}
