import { STATUS_CODES } from 'node:http';
import { MediaError, type MediaErrorCode } from '@llm-d/media';
import { type CoordinatorError, type ErrorResponse } from '@llm-d/pipeline';

/** A problem document (RFC 9457), as media-fetcher.md 1.6 writes it. */
export interface Problem {
  readonly type: string;
  readonly title: string;
  readonly status: number;
  /** Stable; clients match on it. */
  readonly code: string;
  readonly detail: string;
  readonly retryable: boolean;
  readonly limit?: number;
  readonly actual?: number;
  /** Redirects that were followed before the failing URL. */
  readonly hop?: number;
  /** The rule that a redirect broke. */
  readonly cause_code?: string;
  /** Position in a batch, and the caller's name for it. */
  readonly index?: number;
  readonly id?: string;
  readonly origin_status: number | null;
  readonly request_id: string;
}

/** Which item of a batch a problem is about. */
export interface ItemPlace {
  readonly index: number;
  readonly id: string;
}

const titles: Record<MediaErrorCode, string> = {
  media_url_invalid: 'The URL is not valid',
  media_url_too_long: 'The URL is too long',
  media_scheme_not_allowed: 'The scheme is not allowed',
  media_credentials_not_allowed: 'The URL holds credentials',
  media_port_not_allowed: 'The port is not allowed',
  media_host_not_allowed: 'The host is not allowed',
  media_address_blocked: 'The address is blocked',
  media_redirect_blocked: 'A redirect is blocked',
  media_too_many_redirects: 'Too many redirects',
  media_redirect_invalid: 'A redirect is not valid',
  media_data_uri_invalid: 'The data URI is not valid',
  media_type_not_allowed: 'The media type is not allowed',
  media_content_invalid: 'The content is not valid',
  media_too_large: 'Media is too large',
  media_total_too_large: 'Media is too large in total',
  media_dimensions_exceeded: 'The image is too large in pixels',
  media_too_many_items: 'Too many items',
  media_origin_status: 'The origin did not answer with the media',
  media_dns_failed: 'The name does not resolve',
  media_connect_failed: 'The origin cannot be reached',
  media_tls_failed: 'The TLS handshake failed',
  media_protocol_error: 'The origin broke the protocol',
  media_truncated: 'The answer was cut off',
  media_timeout: 'The origin was too slow',
  media_overloaded: 'Too many downloads at once',
  media_not_cached: 'The media is not cached',
  media_cancelled: 'The caller left',
  media_internal: 'Internal failure',
};

const urn = (code: string): string => `urn:media:problem:${code}`;

/** The problem that a failure of the media library is. Nothing but its safe message and its numbers is shown. */
export function mediaProblem(error: MediaError, requestId: string, place?: ItemPlace): Problem {
  const { code, limit, actual, hop, causeCode } = error;
  // A download that may only look into the cache misses its copy as a proxy would (RFC 9111, 5.2.1.7).
  const status = code === 'media_not_cached' ? 504 : error.httpStatus;
  return {
    type: urn(code),
    title: titles[code],
    status,
    code,
    detail: error.safeMessage,
    retryable: error.retryable,
    ...(limit !== undefined && { limit }),
    ...(actual !== undefined && { actual }),
    ...(hop !== undefined && { hop }),
    ...(causeCode !== undefined && { cause_code: causeCode }),
    ...place,
    origin_status: error.originStatus ?? null,
    request_id: requestId,
  };
}

/** The failure of an answer for which there is no memory. */
export function overloaded(): MediaError {
  return new MediaError('media_overloaded', 'other answers take all the memory that there is');
}

/** Refusals of the limits of the process; for callers they are one. */
const overloads = new Set(['TOO_MANY_REQUESTS', 'QUEUE_TIMEOUT', 'BODY_MEMORY_FULL']);

/** A refusal of the HTTP edge as a problem: unknown paths, wrong methods, bodies that are no request. */
export function edgeProblem(error: CoordinatorError, requestId: string): ErrorResponse {
  const isOverload = overloads.has(error.code);
  const code = isOverload ? 'media_overloaded' : codeOf(error);
  const status = isOverload ? 503 : error.status;
  const problem: Problem = {
    type: urn(code),
    title: isOverload ? titles.media_overloaded : (STATUS_CODES[status] ?? 'Refused'),
    status,
    code,
    detail: error.message,
    retryable: isOverload,
    origin_status: null,
    request_id: requestId,
  };
  const body = Buffer.from(JSON.stringify(problem));
  const headers = ['content-type', problemType, 'content-length', String(body.length)];
  return { status, headers: [...headers, ...nosniff, ...error.headers], body };
}

function codeOf({ code, status }: CoordinatorError): string {
  return status === 500 ? 'media_internal' : code.toLowerCase();
}

/** The content type of problems. */
export const problemType = 'application/problem+json';

/** On every answer; names and values in turn. */
export const nosniff = ['x-content-type-options', 'nosniff'] as const;
