import { type Dispatcher, request } from 'undici';
import { MediaError, type MediaErrorCode, originStatusError } from './media-error.ts';
import { type MediaLimits, type Modality } from './options.ts';
import { discard, singleHeader } from './read-body.ts';
import { redactUrl } from './redact.ts';
import { type ResolveChecked } from './resolve-host.ts';
import { retryAfterMs } from './retry.ts';
import { toMediaError } from './transport-error.ts';
import {
  checkHttpUrl,
  hasRefusedCharacters,
  literalAddress,
  type UrlPolicy,
} from './url-policy.ts';

/** How one reference is asked for. */
export interface DownloadPlan {
  readonly modality: Modality;
  readonly policy: UrlPolicy;
  readonly limits: MediaLimits;
  readonly maxRedirects: number;
  readonly dispatcher: Dispatcher;
  /**
   * Set behind a proxy, where our socket shows the proxy and not the target: every name is resolved and
   * checked here first.
   */
  readonly resolveFirst: ResolveChecked | undefined;
  /** Behind a proxy: names that do not resolve here are left to it. */
  readonly trustRemoteDns: boolean;
  readonly userAgent: string;
  readonly allowHttpsDowngrade: boolean;
  /** Headers for hosts that know us; sent over https to exactly that host. */
  readonly originHeaders: readonly OriginHeaders[];
  /** Headers that ask the first URL only whether a stored copy is still right; a 304 is then an answer. */
  readonly conditions?: Readonly<Record<string, string>> | undefined;
  readonly signal: AbortSignal;
}

/** An answer with the whole media in its body, which the caller has to read or discard. */
export interface Download {
  readonly response: Dispatcher.ResponseData;
  /** The URL that answered, as it was asked. */
  readonly url: URL;
  /** Whether it was asked for with headers of the configuration. */
  readonly isAuthorized: boolean;
  /** The redirects before it; undefined without one. */
  readonly redirects: readonly Redirect[] | undefined;
}

/** An answer that sent us on. */
export interface Redirect {
  readonly url: URL;
  readonly headers: Dispatcher.ResponseData['headers'];
  /** Whether it was asked for with headers of the configuration. */
  readonly isAuthorized: boolean;
}

/** Headers that one origin is shown, for private stores. */
export interface OriginHeaders {
  /** Host name as in URLs, lower case. */
  readonly domain: string;
  readonly headers: Readonly<Record<string, string>>;
}

function headersFor({ protocol, hostname }: URL, plan: DownloadPlan): OriginHeaders['headers'] {
  if (protocol !== 'https:') return {};
  const name = hostname.replace(/\.$/, '');
  return plan.originHeaders.find(({ domain }) => domain === name)?.headers ?? {};
}

// Constant per modality: a negotiated variant would change the bytes and so the hash on the model's side.
const accept: Readonly<Record<Modality, string>> = {
  image: 'image/png,image/jpeg,image/webp,image/gif,*/*;q=0.1',
  video: 'video/mp4,video/webm,*/*;q=0.1',
  audio: 'audio/wav,audio/mpeg,audio/ogg,audio/flac,*/*;q=0.1',
};

/** What may wait to be read. More than the 64 KB that a socket gives at a time, or undici would pause it after each of them. */
const bodyAheadBytes = 128 * 1024;

const followed = new Set([301, 302, 303, 307, 308]);

/** Rules that a hop can break; behind a redirect they become `media_redirect_blocked`. */
const hopRules: ReadonlySet<MediaErrorCode> = new Set<MediaErrorCode>([
  'media_url_invalid',
  'media_scheme_not_allowed',
  'media_credentials_not_allowed',
  'media_port_not_allowed',
  'media_host_not_allowed',
  'media_address_blocked',
]);

function atHop(error: MediaError, hop: number): MediaError {
  if (hop === 0 || !hopRules.has(error.code)) {
    return error;
  }
  return new MediaError('media_redirect_blocked', 'downloading media: a redirect is not allowed', {
    cause: error,
    causeCode: error.code,
    hop,
    logDetail: `redirect ${hop}: ${error.logDetail}`,
  });
}

/** The target of a redirect, not yet checked; throws MediaError. */
function redirectTarget(
  headers: Dispatcher.ResponseData['headers'],
  from: URL,
  maxLength: number,
): string {
  // Undici hands headers out as latin1; a location of more than ASCII is UTF-8 in practice.
  const location = Buffer.from(singleHeader(headers, 'location') ?? '', 'latin1').toString();
  if (
    location === '' ||
    location.length > maxLength ||
    hasRefusedCharacters(location) ||
    !URL.canParse(location, from.href)
  ) {
    throw new MediaError(
      'media_redirect_invalid',
      'downloading media: the origin redirects without a usable location',
      { logDetail: `${redactUrl(from.href)} redirects without a usable location` },
    );
  }
  return new URL(location, from).href;
}

async function resolveTarget(url: URL, plan: DownloadPlan): Promise<void> {
  if (plan.resolveFirst === undefined || literalAddress(url.hostname) !== undefined) {
    return;
  }
  const { signal } = plan;
  const { promise: gone, reject } = Promise.withResolvers<never>();
  const leave = (): void => {
    reject(toMediaError(signal.reason, 'headers', redactUrl(url.href)));
  };
  signal.addEventListener('abort', leave, { once: true });
  try {
    await Promise.race([plan.resolveFirst(url.hostname), gone]);
  } catch (error) {
    const isUnknown = error instanceof MediaError && error.code === 'media_dns_failed';
    if (!(isUnknown && plan.trustRemoteDns)) {
      throw error;
    }
  } finally {
    signal.removeEventListener('abort', leave);
  }
}

async function ask(
  url: URL,
  plan: DownloadPlan,
  conditions: DownloadPlan['conditions'],
): Promise<Dispatcher.ResponseData> {
  plan.signal.throwIfAborted();
  await resolveTarget(url, plan);
  return request(url, {
    dispatcher: plan.dispatcher,
    method: 'GET',
    highWaterMark: bodyAheadBytes,
    headers: {
      'user-agent': plan.userAgent,
      accept: accept[plan.modality],
      'accept-encoding': 'identity',
      ...conditions,
      ...headersFor(url, plan),
    },
    signal: plan.signal,
  });
}

/** Whether a 206 nevertheless carries everything: `bytes 0-(n-1)/n` in a body of n bytes. */
function isWholeRange({ headers }: Dispatcher.ResponseData): boolean {
  const length = singleHeader(headers, 'content-length');
  return (
    length !== undefined &&
    singleHeader(headers, 'content-range') === `bytes 0-${Number(length) - 1}/${length}`
  );
}

/**
 * Asks for a checked URL and follows redirects, each of which is checked as the first URL was. Redirects are
 * done here and not by undici, whose interceptor reads their bodies and cannot refuse a host. Rejects with
 * MediaError.
 */
export async function download(first: URL, plan: DownloadPlan): Promise<Download> {
  const { maxRedirects } = plan;
  const seen = new Set<string>();
  let url = first;
  let redirects: Redirect[] | undefined;
  for (let hop = 0; ; hop += 1) {
    if (hop > maxRedirects || seen.has(url.href)) {
      throw new MediaError('media_too_many_redirects', 'downloading media: too many redirects', {
        limit: maxRedirects,
        hop,
        logDetail: `too many redirects at ${redactUrl(url.href)}`,
      });
    }
    seen.add(url.href);
    const isAuthorized = Object.keys(headersFor(url, plan)).length > 0;
    const conditions = hop === 0 ? plan.conditions : undefined;
    let response: Dispatcher.ResponseData;
    try {
      response = await ask(url, plan, conditions);
    } catch (error) {
      throw atHop(toMediaError(error, 'headers', redactUrl(url.href)), hop);
    }
    const { statusCode } = response;
    if (
      statusCode === 200 ||
      (statusCode === 206 && isWholeRange(response)) ||
      (statusCode === 304 && conditions !== undefined)
    ) {
      return { response, url, redirects, isAuthorized };
    }
    // An endless body of a redirect would hold us until the deadline.
    discard(response.body);
    if (!followed.has(statusCode)) {
      const retryAfter = singleHeader(response.headers, 'retry-after');
      throw originStatusError(statusCode, redactUrl(url.href), retryAfterMs(retryAfter));
    }
    (redirects ??= []).push({ url, headers: response.headers, isAuthorized });
    try {
      url = nextUrl(response, url, plan);
    } catch (error) {
      throw atHop(toMediaError(error, 'headers', redactUrl(url.href)), hop + 1);
    }
  }
}

function nextUrl(response: Dispatcher.ResponseData, from: URL, plan: DownloadPlan): URL {
  const target = redirectTarget(response.headers, from, plan.limits.maxUrlLength);
  const url = checkHttpUrl(target, plan.policy);
  if (from.protocol === 'https:' && url.protocol === 'http:' && !plan.allowHttpsDowngrade) {
    throw new MediaError('media_scheme_not_allowed', 'downloading media: a redirect leaves https', {
      logDetail: `${redactUrl(from.href)} redirects to http`,
    });
  }
  return url;
}
