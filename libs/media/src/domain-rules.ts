import { isIP } from 'node:net';

/** One entry of `allowed_domains` or `blocked_domains`, ready to compare. */
export interface DomainRule {
  /** IDNA ASCII, lower case, no trailing dot; an IPv6 literal stands in brackets. */
  readonly host: string;
  /** `*.host` and `.host` match any depth below. */
  readonly matchesSubdomains: boolean;
  /** False for `*.host` only. */
  readonly matchesHost: boolean;
  readonly httpsOnly: boolean;
  readonly port: number | undefined;
}

/** Host of a parsed URL as rules compare it: without one trailing dot. */
export function comparableHost(url: URL): string {
  return url.hostname.endsWith('.') ? url.hostname.slice(0, -1) : url.hostname;
}

/** The port that a URL names or implies. */
export function effectivePort(url: URL): number {
  return url.port === '' ? (url.protocol === 'https:' ? 443 : 80) : Number(url.port);
}

function parseRule(entry: unknown): DomainRule {
  const refuse = (why: string): Error =>
    new Error(`allowed_domains: entry ${JSON.stringify(entry)}: ${why}`);
  if (typeof entry !== 'string') {
    throw refuse('expected a string');
  }
  const httpsOnly = /^https:\/\//i.test(entry);
  const rest = httpsOnly ? entry.slice('https://'.length) : entry;
  const [, prefix = '', bare = ''] = /^(\*\.|\.)?(.*)$/s.exec(rest) ?? [];
  if (bare === '' || bare === '*') {
    throw refuse('expected a host; leave the list out to allow every public host');
  }
  if (/[/?#@\\%*\s]/.test(bare)) {
    throw refuse('expected host, *.host or .host, each with https:// before or :port after it');
  }
  // The URL parser does IDNA and the spellings of IPv4, so that both sides of a comparison agree.
  const authority = isIP(bare) === 6 ? `[${bare}]` : bare;
  if (!URL.canParse(`http://${authority}/`) || /:0*$/.test(authority)) {
    throw refuse('not a host name, address or host:port');
  }
  const url = new URL(`http://${authority}/`);
  const host = comparableHost(url);
  if (host.split('.').includes('')) {
    throw refuse('not a host name');
  }
  if (prefix !== '' && (!host.includes('.') || isIP(host) !== 0 || host.startsWith('['))) {
    throw refuse('a wildcard needs a domain of two labels or more');
  }
  return {
    host,
    matchesSubdomains: prefix !== '',
    matchesHost: prefix !== '*.',
    httpsOnly,
    // A URL drops port 80 as the default of http, so the text is asked.
    port: /:\d+$/.test(bare) && isIP(bare) !== 6 ? effectivePort(url) : undefined,
  };
}

/**
 * Reads `allowed_domains` (media-fetcher.md 3.4). Throws an Error that names the entry, for anything that is
 * not a list of `host`, `*.host`, `.host` or address, so that a typing error never means "allow all".
 */
export function parseAllowedDomains(list: unknown): DomainRule[] {
  if (!Array.isArray(list)) {
    throw new Error(`allowed_domains: expected a list of strings, got ${JSON.stringify(list)}`);
  }
  return list.map(parseRule);
}

/** Whether one of the rules covers the URL's scheme, host and port; whole labels are compared. */
export function matchesDomain(url: URL, rules: readonly DomainRule[]): boolean {
  const host = comparableHost(url);
  return rules.some(
    (rule) =>
      (!rule.httpsOnly || url.protocol === 'https:') &&
      (rule.port === undefined || rule.port === effectivePort(url)) &&
      ((rule.matchesHost && host === rule.host) ||
        (rule.matchesSubdomains && host.endsWith(`.${rule.host}`))),
  );
}
