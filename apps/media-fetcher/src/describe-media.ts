import { hash } from 'node:crypto';
import { imageDetails, imageSize, type MediaResult } from '@llm-d/media';

/** An item with the digest of its bytes, which names them everywhere. */
export interface DigestedMedia {
  readonly media: MediaResult;
  /** SHA-256 of the bytes in hex. */
  readonly digest: string;
  /** From the call to this moment. */
  readonly totalMs: number;
}

/** Takes the digest of an item; half a millisecond per megabyte. */
export function digested(media: MediaResult, startedAt: number): DigestedMedia {
  const digest = hash('sha256', media.bytes, 'hex');
  return { media, digest, totalMs: performance.now() - startedAt };
}

/** The entity tag of bytes with this digest. */
export const etagOf = (digest: string): string => `"sha256:${digest}"`;

/** Whether a list of entity tags, as `If-None-Match` has it, names the bytes. */
export function matchesEtag(list: string | undefined, digest: string): boolean {
  if (list === undefined) return false;
  const tags = list.split(',').map((tag) => tag.trim().replace(/^W\//, ''));
  return tags.includes('*') || tags.includes(etagOf(digest));
}

/** Most characters of what an origin may write: all of it has to fit into one header. */
const maxOriginText = 256;

/** A text of an origin; null when it is longer than any that makes sense. */
function originText(text: string | undefined): string | null {
  return text === undefined || text.length > maxOriginText ? null : text;
}

const whole = (milliseconds: number): number => Math.round(milliseconds);

/** What is told of an item beside its bytes: the members of media-fetcher.md 1.4 without `data`. */
export function describeMedia({ media, digest, totalMs }: DigestedMedia): object {
  const { contentType, byteLength, facts } = media;
  const { origin, timing, cache, transform, declaredType } = facts;
  // Inline items come without a size.
  const { width = null, height = null } =
    media.width === undefined ? (imageSize(contentType, media.bytes) ?? {}) : media;
  const isImage = contentType.startsWith('image/');
  const { orientation = null, frames = null } = isImage
    ? imageDetails(contentType, media.bytes)
    : {};
  return {
    content_type: contentType,
    byte_length: byteLength,
    sha256: digest,
    etag: etagOf(digest),
    width,
    height,
    orientation,
    frames,
    declared_content_type: originText(declaredType),
    transformed: transform !== undefined && transform.sourceSha256 !== digest,
    source: {
      sha256: transform?.sourceSha256 ?? digest,
      byte_length: transform?.sourceBytes ?? byteLength,
      etag: originText(origin?.etag),
      last_modified: originText(origin?.lastModified),
      host: origin?.host ?? null,
      redirects: origin?.redirects ?? 0,
    },
    cache: {
      status: cache?.status ?? 'bypass',
      tier: cache?.tier ?? 'none',
      age_ms: whole(cache?.ageMs ?? 0),
      ttl_ms: whole(cache?.ttlMs ?? 0),
    },
    timing_ms: {
      queue: whole(timing?.queueMs ?? 0),
      first_byte: whole(timing?.firstByteMs ?? 0),
      download: whole(timing?.downloadMs ?? 0),
      transform: whole(transform?.durationMs ?? 0),
      total: whole(totalMs),
    },
  };
}
