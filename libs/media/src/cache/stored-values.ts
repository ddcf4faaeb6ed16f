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

/** An entry as it is stored: its seal, a blank, its text. */
export interface StoredEntry {
  readonly entry: CachedEntry;
  /** By `Seal`, of the bytes and of what the entry says under its key. */
  readonly seal: string;
  /** The entry as JSON. */
  readonly text: string;
}

/** What the seal of an entry covers beside the bytes: neither may stand under another key. */
export const sealLabel = (key: string, text: string): string => `${key} ${text} `;

/** Reads an entry as it was written; undefined for anything else: the store may be shared. */
export function parseEntry(stored: string): StoredEntry | undefined {
  const blank = stored.indexOf(' ');
  const [seal, text] = [stored.slice(0, Math.max(0, blank)), stored.slice(blank + 1)];
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
  return { entry, seal, text };
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
