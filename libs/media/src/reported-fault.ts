import {
  MediaError,
  type MediaErrorCode,
  mediaErrorCodes,
  originStatusError,
} from './media-error.ts';

/** What another process tells of a failure; a problem document has it all. */
export interface ReportedFault {
  readonly code: string;
  /** The safe message. */
  readonly detail: string;
  readonly retryable?: boolean | undefined;
  readonly index?: number | undefined;
  readonly limit?: number | undefined;
  readonly actual?: number | undefined;
  readonly hop?: number | undefined;
  readonly causeCode?: string | undefined;
  readonly originStatus?: number | undefined;
}

/** The error that a failure in another process is in this one; a code that is not known here is an internal failure. */
export function reportedFault(reported: ReportedFault): MediaError {
  const { detail, retryable, index, limit, actual, hop, causeCode, originStatus } = reported;
  const code = knownCode(reported.code) ?? 'media_internal';
  const cause = knownCode(causeCode ?? '');
  const error =
    code === 'media_origin_status' && originStatus !== undefined
      ? originStatusError(originStatus, 'the origin')
      : new MediaError(code, detail, {
          logDetail: `${reported.code}, reported by the media fetcher`,
          ...(retryable !== undefined && { retryable }),
          ...(limit !== undefined && { limit }),
          ...(actual !== undefined && { actual }),
          ...(hop !== undefined && { hop }),
          ...(cause && { causeCode: cause }),
        });
  error.index = index;
  return error;
}

const knownCode = (code: string): MediaErrorCode | undefined =>
  Object.hasOwn(mediaErrorCodes, code) ? (code as MediaErrorCode) : undefined;
