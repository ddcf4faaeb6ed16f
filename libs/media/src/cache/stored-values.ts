import { mediaErrorCodes, type MediaErrorCode } from '../media-error.ts';
import { type CachedEntry, type CachedFailure } from './cache-tier.ts';

type Fields = Readonly<Record<string, unknown>>;

function parse(text: string): Fields {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null ? { ...value } : {};
  } catch {
    return {};
  }
}

const optionalText = (value: unknown): string | undefined =>
  typeof value === 'string' ? value : undefined;
const optionalNumber = (value: unknown): number | undefined =>
  typeof value === 'number' ? value : undefined;
const isCode = (value: unknown): value is MediaErrorCode =>
  typeof value === 'string' && Object.hasOwn(mediaErrorCodes, value);

/** An entry as it is stored. */
export interface StoredEntry {
  readonly entry: CachedEntry;
  /** Of the bytes, by `Seal`; absent in what others wrote. */
  readonly seal: string | undefined;
}

/** The text of an entry for the store. */
export const writeEntry = (entry: CachedEntry, seal: string): string =>
  JSON.stringify({ ...entry, seal });

/** Reads an entry as `writeEntry` wrote it; undefined for anything else: the store may be shared. */
export function parseEntry(text: string): StoredEntry | undefined {
  const { digest, fetchedAt, freshUntil, keepUntil, ...rest } = parse(text);
  if (
    typeof digest !== 'string' ||
    !/^[0-9a-f]{64}$/.test(digest) ||
    typeof fetchedAt !== 'number' ||
    typeof freshUntil !== 'number' ||
    typeof keepUntil !== 'number'
  ) {
    return undefined;
  }
  const entry: CachedEntry = {
    digest,
    fetchedAt,
    freshUntil,
    keepUntil,
    mustRevalidate: rest['mustRevalidate'] !== false,
    isCloseDelimited: rest['isCloseDelimited'] !== false,
    contentTypeHeader: optionalText(rest['contentTypeHeader']),
    etag: optionalText(rest['etag']),
    lastModified: optionalText(rest['lastModified']),
  };
  return { entry, seal: optionalText(rest['seal']) };
}

/** Reads a failure as `JSON.stringify` wrote it; undefined for anything else. */
export function parseFailure(text: string): CachedFailure | undefined {
  const { code, safeMessage, until, ...rest } = parse(text);
  if (!isCode(code) || typeof safeMessage !== 'string' || typeof until !== 'number') {
    return undefined;
  }
  const { kind, stepStatus } = mediaErrorCodes[code];
  return {
    code,
    safeMessage,
    until,
    kind: rest['kind'] === 'client' ? 'client' : kind,
    stepStatus: rest['stepStatus'] === 400 ? 400 : stepStatus,
    retryable: rest['retryable'] === true,
    originStatus: optionalNumber(rest['originStatus']),
    limit: optionalNumber(rest['limit']),
    actual: optionalNumber(rest['actual']),
    limits: optionalText(rest['limits']),
  };
}
