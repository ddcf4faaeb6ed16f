import { MediaError, type MediaErrorCode } from '../media-error.ts';
import { type CachedFailure } from './cache-tier.ts';

const content: ReadonlySet<MediaErrorCode> = new Set<MediaErrorCode>([
  'media_too_large',
  'media_type_not_allowed',
  'media_content_invalid',
  'media_dimensions_exceeded',
]);

const secondsByCode: Partial<Record<MediaErrorCode, number>> = {
  media_too_large: 60,
  media_type_not_allowed: 60,
  media_content_invalid: 60,
  media_dimensions_exceeded: 60,
  media_too_many_redirects: 60,
  media_redirect_invalid: 60,
  media_dns_failed: 5,
  media_connect_failed: 5,
  media_tls_failed: 5,
  media_protocol_error: 5,
  media_truncated: 5,
  media_timeout: 5,
  media_origin_status: 5,
};

const secondsByStatus: Readonly<Record<number, number>> = {
  401: 10,
  403: 10,
  404: 60,
  410: 60,
  451: 10,
};

/**
 * What of a failure is remembered, by the table of media-fetcher.md 6.6; undefined for one that is not: refused
 * URLs and addresses, a caller that left, our own overload and mistakes.
 */
export function rememberedFailure(
  error: MediaError,
  limits: string,
  now: number,
  random: () => number = Math.random,
): CachedFailure | undefined {
  const { code, originStatus } = error;
  // An origin that asks for patience gets it, up to a minute.
  const asked =
    originStatus === 429 && error.retryAfterMs !== undefined
      ? Math.min(Math.max(error.retryAfterMs / 1000, 1), 60)
      : undefined;
  const seconds = asked ?? secondsByStatus[originStatus ?? 0] ?? secondsByCode[code];
  if (seconds === undefined) {
    return undefined;
  }
  // Many replicas that failed together should not come back together.
  const jitter = seconds === 5 ? 1 + 0.2 * (random() - 0.5) : 1;
  return {
    code,
    safeMessage: error.safeMessage,
    kind: error.kind,
    stepStatus: error.stepStatus,
    retryable: error.retryable,
    originStatus,
    limit: error.limit,
    actual: error.actual,
    limits: content.has(code) ? limits : undefined,
    until: now + seconds * 1000 * jitter,
  };
}

/** The failure as it was thrown, without its log text. */
export const failureAgain = ({ safeMessage, code, ...failure }: CachedFailure): MediaError =>
  new MediaError(code, safeMessage, {
    kind: failure.kind,
    stepStatus: failure.stepStatus,
    retryable: failure.retryable,
    isRemembered: true,
    logDetail: `${safeMessage} (remembered)`,
    ...(failure.originStatus !== undefined && { originStatus: failure.originStatus }),
    ...(failure.limit !== undefined && { limit: failure.limit }),
    ...(failure.actual !== undefined && { actual: failure.actual }),
  });
