/** Who can mend a failure: the client, the media origin, this service, or nobody because the caller left. */
export type MediaErrorKind = 'client' | 'origin' | 'service' | 'cancelled';

interface CodeRow {
  readonly kind: MediaErrorKind;
  /** Status of the HTTP app. */
  readonly httpStatus: number;
  /** Status that the coordinator's step answers its client with. */
  readonly stepStatus: number;
  readonly retryable: boolean;
}

const row = (
  kind: MediaErrorKind,
  httpStatus: number,
  stepStatus: number,
  retryable = false,
): CodeRow => ({ kind, httpStatus, stepStatus, retryable });

/**
 * Every failure code of the media library with its statuses: the table of media-fetcher.md 1.6.
 * Codes are stable API. A row's `retryable` is the rule; one error may say otherwise.
 */
export const mediaErrorCodes = {
  media_url_invalid: row('client', 400, 400),
  media_url_too_long: row('client', 400, 400),
  media_scheme_not_allowed: row('client', 400, 400),
  media_credentials_not_allowed: row('client', 400, 400),
  media_port_not_allowed: row('client', 400, 400),
  media_host_not_allowed: row('client', 403, 400),
  media_address_blocked: row('client', 403, 400),
  media_redirect_blocked: row('client', 403, 400),
  media_too_many_redirects: row('client', 400, 400),
  media_redirect_invalid: row('origin', 502, 424),
  media_data_uri_invalid: row('client', 400, 400),
  media_type_not_allowed: row('client', 415, 400),
  media_content_invalid: row('client', 415, 400),
  media_too_large: row('client', 413, 400),
  media_total_too_large: row('client', 413, 400),
  media_dimensions_exceeded: row('client', 413, 400),
  media_too_many_items: row('client', 400, 400),
  // An origin's own 4xx is the client's to mend and answers 400; see `originStatusError`.
  media_origin_status: row('origin', 502, 424),
  media_dns_failed: row('origin', 502, 424, true),
  media_connect_failed: row('origin', 502, 424, true),
  media_tls_failed: row('origin', 502, 424),
  media_protocol_error: row('origin', 502, 424),
  media_truncated: row('origin', 502, 424, true),
  media_timeout: row('origin', 504, 424, true),
  media_overloaded: row('service', 503, 503, true),
  // The step never asks for a cached copy only, so its status is that of a bug.
  media_not_cached: row('client', 404, 502),
  // Nobody is left to answer; 499 is for logs and metrics.
  media_cancelled: row('cancelled', 499, 499),
  media_internal: row('service', 500, 502),
} as const satisfies Record<string, CodeRow>;

/** A stable failure code, for example `media_too_large`. */
export type MediaErrorCode = keyof typeof mediaErrorCodes;

/** What one failure adds to its code. */
export interface MediaErrorDetails extends ErrorOptions {
  /** For logs only: may name the redacted URL and the resolved address. Defaults to the safe message. */
  readonly logDetail?: string;
  /** Overrides the kind of the code. */
  readonly kind?: MediaErrorKind;
  /** Overrides the step status of the code. */
  readonly stepStatus?: number;
  /** Overrides what the code says about trying again. */
  readonly retryable?: boolean;
  /** HTTP status that the origin answered with. */
  readonly originStatus?: number;
  /** How long the origin asks to wait before another try. */
  readonly retryAfterMs?: number | undefined;
  /** The limit that was passed, in the unit that the message names. */
  readonly limit?: number;
  /** The value that passed the limit; a lower bound where reading stopped at the limit. */
  readonly actual?: number;
  /** Number of redirects followed before the failing URL; absent for the first URL. */
  readonly hop?: number;
  /** For `media_redirect_blocked`: the rule that the hop broke. */
  readonly causeCode?: MediaErrorCode;
  /** Whether a cache remembered the failure and nobody asked the origin again. */
  readonly isRemembered?: boolean;
}

/**
 * The only error that leaves this package. `safeMessage` (also `message`) may reach a client: no URL, no
 * resolved address, no origin text. `logDetail` stays in logs.
 */
export class MediaError extends Error {
  override readonly name = 'MediaError';
  readonly code: MediaErrorCode;
  readonly kind: MediaErrorKind;
  readonly httpStatus: number;
  readonly stepStatus: number;
  readonly retryable: boolean;
  readonly originStatus: number | undefined;
  readonly retryAfterMs: number | undefined;
  readonly limit: number | undefined;
  readonly actual: number | undefined;
  readonly hop: number | undefined;
  readonly causeCode: MediaErrorCode | undefined;
  readonly isRemembered: boolean;
  readonly safeMessage: string;
  readonly logDetail: string;
  /** Position of the reference in the caller's list; set by `fetchMany`. */
  index: number | undefined;

  constructor(code: MediaErrorCode, safeMessage: string, details: MediaErrorDetails = {}) {
    super(safeMessage, details);
    const rule = mediaErrorCodes[code];
    this.code = code;
    this.kind = details.kind ?? rule.kind;
    this.httpStatus = rule.httpStatus;
    this.stepStatus = details.stepStatus ?? rule.stepStatus;
    this.retryable = details.retryable ?? rule.retryable;
    this.originStatus = details.originStatus;
    this.retryAfterMs = details.retryAfterMs;
    this.limit = details.limit;
    this.actual = details.actual;
    this.hop = details.hop;
    this.causeCode = details.causeCode;
    this.isRemembered = details.isRemembered === true;
    this.safeMessage = safeMessage;
    this.logDetail = details.logDetail ?? safeMessage;
    this.index = undefined;
  }
}

const retryableStatuses = new Set([408, 425, 429]);

/**
 * The failure for an origin that did not answer 200. Its own 4xx is a bad URL of the client (400), the
 * rest is a failing origin (424): media-fetcher.md 2.4.
 */
export function originStatusError(
  status: number,
  logDetail: string,
  retryAfterMs?: number,
): MediaError {
  const comesAndGoes = retryableStatuses.has(status);
  const isClientFault = status >= 400 && status < 500 && !comesAndGoes;
  return new MediaError('media_origin_status', `downloading media: the origin answered ${status}`, {
    originStatus: status,
    retryAfterMs,
    retryable: comesAndGoes || status >= 500,
    logDetail: `${logDetail} answered ${status}`,
    ...(isClientFault ? { kind: 'client', stepStatus: 400 } : {}),
  });
}
