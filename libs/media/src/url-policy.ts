import { isIP } from 'node:net';
import { type AddressGuard } from './address-guard.ts';
import { comparableHost, type DomainRule, effectivePort, matchesDomain } from './domain-rules.ts';
import { MediaError, type MediaErrorCode, type MediaErrorDetails } from './media-error.ts';
import { redactUrl } from './redact.ts';

/** What the static check of a URL needs to know. */
export interface UrlPolicy {
  readonly guard: AddressGuard;
  readonly maxUrlLength: number;
  /** Empty = any host. */
  readonly allowedDomains: readonly DomainRule[];
  /** Hosts that may have a reserved name. */
  readonly excusedDomains: readonly DomainRule[];
  /** Wins over `allowedDomains`. */
  readonly blockedDomains: readonly DomainRule[];
  /** Exclusive when not empty; otherwise the deny list applies. */
  readonly allowedPorts: readonly number[];
}

/** The bad ports of browsers, and ports of databases, queues and cluster interfaces. */
const deniedPorts = new Set([
  0, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102,
  103, 104, 109, 110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465,
  512, 513, 514, 515, 526, 530, 531, 532, 540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993,
  995, 1719, 1720, 1723, 2049, 2375, 2376, 2379, 2380, 3306, 3659, 4045, 5060, 5061, 5432, 5984,
  6000, 6379, 6443, 6566, 6665, 6666, 6667, 6668, 6669, 6697, 9042, 9092, 9200, 9300, 10080, 10250,
  10255, 11211, 27017,
]);

/** Names that mean this machine or this network; single-label names are resolved with search domains. */
const reservedSuffixes = [
  'localhost',
  'local',
  'internal',
  'localdomain',
  'home.arpa',
  'svc',
  'cluster.local',
  'onion',
  'arpa',
];

// The URL parser would drop tabs and newlines and turn a backslash around without a word.
const refusedText = /[\p{Cc}\\]|^\s|\s$/u;

/** IP literal of a parsed URL without brackets, or undefined for a name. */
export function literalAddress(hostname: string): string | undefined {
  const bare = hostname.startsWith('[') ? hostname.slice(1, -1) : hostname;
  return isIP(bare) === 0 ? undefined : bare;
}

function isReservedName(host: string): boolean {
  return (
    !host.includes('.') ||
    reservedSuffixes.some((suffix) => host === suffix || host.endsWith(`.${suffix}`))
  );
}

/** Refuses text that two URL parsers may read differently (CVE-2026-25960); used for `Location` too. */
export function hasRefusedCharacters(text: string): boolean {
  return refusedText.test(text);
}

/**
 * The static check of media-fetcher.md 3.1 for `http:` and `https:`, without network. Returns the parsed URL
 * without its fragment, which is the very object to request; throws MediaError.
 */
export function checkHttpUrl(text: string, policy: UrlPolicy): URL {
  const refuse = (
    code: MediaErrorCode,
    message: string,
    details: MediaErrorDetails = {},
  ): MediaError =>
    new MediaError(code, `downloading media: ${message}`, {
      logDetail: `${message}: ${redactUrl(text)}`,
      ...details,
    });

  if (text.length > policy.maxUrlLength) {
    throw refuse('media_url_too_long', `the URL is longer than ${policy.maxUrlLength} characters`, {
      limit: policy.maxUrlLength,
      actual: text.length,
    });
  }
  if (hasRefusedCharacters(text)) {
    throw refuse(
      'media_url_invalid',
      'the URL holds a backslash, control character or outer blank',
    );
  }
  const scheme = /^([a-z][a-z0-9+.-]*):/i.exec(text)?.[1]?.toLowerCase();
  if (scheme !== undefined && scheme !== 'http' && scheme !== 'https') {
    throw refuse('media_scheme_not_allowed', 'the URL scheme must be http, https or data');
  }
  const authority = /^https?:\/\/([^/?#]+)/i.exec(text)?.[1];
  if (authority === undefined) {
    throw refuse('media_url_invalid', 'expected an absolute URL with a host');
  }
  if (authority.includes('@')) {
    throw refuse('media_credentials_not_allowed', 'the URL must not hold a user name or password');
  }
  const url = authority.includes('%') ? null : URL.parse(text);
  if (url === null) {
    throw refuse('media_url_invalid', 'the URL cannot be parsed');
  }
  if (text.includes('#')) {
    url.hash = '';
  }
  const host = comparableHost(url);
  const literal = literalAddress(host);
  if (literal === undefined) {
    if (host.length > 253 || host.split('.').some((label) => label === '' || label.length > 63)) {
      throw refuse('media_url_invalid', 'the URL has a malformed host name');
    }
  }
  const port = effectivePort(url);
  const { allowedPorts } = policy;
  if (allowedPorts.length > 0 ? !allowedPorts.includes(port) : deniedPorts.has(port)) {
    throw refuse('media_port_not_allowed', `port ${port} is not allowed`);
  }
  if (literal !== undefined) {
    const why = policy.guard(literal);
    if (why !== undefined) {
      throw refuse('media_address_blocked', 'the address is not public', {
        logDetail: `${redactUrl(text)} is blocked: ${why}`,
      });
    }
  }
  const { allowedDomains, excusedDomains } = policy;
  if (
    matchesDomain(url, policy.blockedDomains) ||
    (allowedDomains.length > 0 && !matchesDomain(url, allowedDomains)) ||
    (literal === undefined && isReservedName(host) && !matchesDomain(url, excusedDomains))
  ) {
    throw refuse('media_host_not_allowed', 'the host is not allowed');
  }
  return url;
}
