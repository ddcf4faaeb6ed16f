import {
  allowedTypes,
  type ContentCheck,
  type MediaFetchOptions,
  type Modality,
  parseAllowedDomains,
  type TransformRules,
} from '@llm-d/media';
import { RequestError } from '@llm-d/service';
import { intersectDomains } from './intersect-domains.ts';
import { type CallOptions } from './request-body.ts';

const modalities: readonly Modality[] = ['image', 'video', 'audio'];
const checks: readonly ContentCheck[] = ['off', 'sniff', 'strict'];

/**
 * The options of a call under the ceiling of the configuration: the stricter of the two counts, so that a caller can take
 * rights away and never adds one. @throws RequestError for a host list that makes no sense.
 */
export function tighten(ceiling: MediaFetchOptions, wanted: CallOptions): MediaFetchOptions {
  const { max_redirects: maxRedirects = Infinity, content_check: check = 'off' } = wanted;
  const { max_retries: maxRetries = Infinity, transcode_image_types: transcoded } = wanted;
  const byModality = <T>(value: (modality: Modality) => T): Record<Modality, T> => ({
    image: value('image'),
    video: value('video'),
    audio: value('audio'),
  });
  const maxBytes = (modality: Modality): number => {
    const { max_bytes: asked } = wanted;
    const own = typeof asked === 'object' ? asked[modality] : asked;
    const most = ceiling.maxModalityBytes?.[modality] ?? ceiling.maxDownloadBytes;
    return Math.min(own ?? most, most);
  };
  return {
    ...ceiling,
    downloadTimeoutMs: least(ceiling.downloadTimeoutMs, wanted.timeout_ms),
    maxConcurrentDownloads: least(ceiling.maxConcurrentDownloads, wanted.max_concurrent),
    maxDownloadBytes: Math.max(...modalities.map(maxBytes)),
    maxModalityBytes: byModality(maxBytes),
    maxTotalDownloadBytes: least(ceiling.maxTotalDownloadBytes, wanted.max_total_bytes),
    allowPrivateNetworks: ceiling.allowPrivateNetworks && (wanted.allow_private_networks ?? true),
    allowedDomains: intersectDomains(ceiling.allowedDomains, readDomains(wanted.allowed_domains)),
    // A host that the caller lists is not excused from the rules for names.
    excusedDomains: ceiling.allowedDomains,
    contentCheck:
      checks.indexOf(check) > checks.indexOf(ceiling.contentCheck) ? check : ceiling.contentCheck,
    allowedTypes: byModality((modality) =>
      intersectTypes(allowedTypes(modality, ceiling), wanted.allowed_types?.[modality]),
    ),
    ...(maxRedirects < (ceiling.maxRedirects ?? Infinity) && { maxRedirects }),
    ...(maxRetries < (ceiling.maxRetries ?? Infinity) && { maxRetries }),
    transcodeImageTypes: intersectLists(ceiling.transcodeImageTypes ?? [], transcoded),
    decodesStrictly: (ceiling.decodesStrictly ?? false) || (wanted.strict_decode ?? false),
    inlineBytes: wanted.inline_bytes ?? 0,
    ...(wanted.transform?.mode === 'fit' && { transform: toRules(wanted.transform) }),
    ...(wanted.cache && { cacheMode: wanted.cache }),
  };
}

const least = (ceiling: number, wanted = ceiling): number => Math.min(ceiling, wanted);

function readDomains(list: readonly string[] = []): ReturnType<typeof parseAllowedDomains> {
  try {
    return parseAllowedDomains(list);
  } catch (cause) {
    throw new RequestError(400, 'REQUEST_INVALID', 'options.allowed_domains: not a list of hosts', {
      cause,
    });
  }
}

const intersectLists = (own: readonly string[], wanted: readonly string[] = own): string[] =>
  own.filter((one) => wanted.includes(one));

/** How images are made smaller is up to the caller, who knows the model; the limits of the process bound the work. */
function toRules(wanted: Extract<CallOptions['transform'], { mode: 'fit' }>): TransformRules {
  return {
    ...{ mode: wanted.mode, factor: wanted.factor, output: wanted.output },
    ...{ minPixels: wanted.min_pixels, maxPixels: wanted.max_pixels },
    ...{ background: wanted.background, bakesOrientation: wanted.bake_orientation },
  };
}

/** No media type is spelt so: an empty list would allow any. */
const noType = '-';

function intersectTypes(own: readonly string[], wanted: readonly string[] = []): readonly string[] {
  if (wanted.length === 0) return own;
  const asked = wanted.map((type) => type.trim().toLowerCase());
  if (own.length === 0) return asked;
  const both = own.filter((type) => asked.includes(type));
  return both.length === 0 ? [noType] : both;
}
