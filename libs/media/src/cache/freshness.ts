import { type Dispatcher } from 'undici';

/** How long what origins sent may be used; all times in milliseconds (media-fetcher.md 6.3). */
export interface FreshnessRules {
  readonly minTtlMs: number;
  /** For answers that say nothing about it. */
  readonly defaultTtlMs: number;
  /** Most for a lifetime guessed from `Last-Modified`. */
  readonly heuristicMaxTtlMs: number;
  readonly maxTtlMs: number;
  readonly staleWhileRevalidateMs: number;
  readonly staleIfErrorMs: number;
}

/** The rules that hold when a configuration names none. */
export const defaultFreshnessRules: FreshnessRules = {
  minTtlMs: 0,
  defaultTtlMs: 300_000,
  heuristicMaxTtlMs: 3_600_000,
  maxTtlMs: 24 * 3_600_000,
  staleWhileRevalidateMs: 30_000,
  staleIfErrorMs: 300_000,
};

/** Until when a stored answer may be used; times since the epoch in milliseconds. */
export interface Lifetime {
  readonly freshUntil: number;
  /** When it is of no use even for asking whether it changed. */
  readonly keepUntil: number;
  /** Never served stale. */
  readonly mustRevalidate: boolean;
}

type Headers = Dispatcher.ResponseData['headers'];

/** One answer on the way to the media: redirects first, the media itself last. */
export interface Hop {
  readonly url: URL;
  readonly headers: Headers;
  /** Asked for with credentials: only what says `public` is for others. */
  readonly isAuthorized?: boolean;
}

/** Longer lifetimes end at different times, so that copies made together do not end together. */
const jitterFromMs = 60_000;

function text(headers: Headers, name: string): string {
  const value = headers[name];
  return Array.isArray(value) ? value.join(', ') : (value ?? '');
}

function directives(headers: Headers): ReadonlyMap<string, string> {
  const found = new Map<string, string>();
  const pattern = /([\w-]+)(?:\s*=\s*(?:"([^"]*)"|([^\s,;]*)))?/g;
  for (const [, name = '', quoted, token] of text(headers, 'cache-control').matchAll(pattern)) {
    found.set(name.toLowerCase(), quoted ?? token ?? '');
  }
  return found;
}

function seconds(value: string | undefined): number | undefined {
  if (value === undefined) {
    return undefined;
  }
  // A lifetime that is not a number is none: the answer is stale at once.
  return /^\d+$/.test(value) ? Number(value) * 1000 : 0;
}

function isStorable(headers: Headers, control: ReadonlyMap<string, string>): boolean {
  if (control.has('no-store') || control.has('private') || text(headers, 'vary').includes('*')) {
    return false;
  }
  return headers['set-cookie'] === undefined || control.has('public') || control.has('s-maxage');
}

function statedMs(
  headers: Headers,
  control: ReadonlyMap<string, string>,
  now: number,
): number | undefined {
  if (control.has('no-cache')) {
    return 0;
  }
  const age = seconds(control.get('s-maxage')) ?? seconds(control.get('max-age'));
  if (age !== undefined) {
    return age;
  }
  if (headers['expires'] === undefined) {
    return undefined;
  }
  const expires = Date.parse(text(headers, 'expires'));
  return Number.isNaN(expires) ? 0 : expires - dateOf(headers, now);
}

function dateOf(headers: Headers, now: number): number {
  const date = Date.parse(text(headers, 'date'));
  return Number.isNaN(date) ? now : date;
}

function guessedMs(headers: Headers, now: number, rules: FreshnessRules): number {
  const modified = Date.parse(text(headers, 'last-modified'));
  if (Number.isNaN(modified)) {
    return rules.defaultTtlMs;
  }
  const sinceMs = Math.max(0, dateOf(headers, now) - modified);
  return Math.min(sinceMs / 10, rules.heuristicMaxTtlMs);
}

const basicTime = /^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/;

/** When a signed URL stops being valid; undefined when its query does not say. */
export function signedUntil(url: URL): number | undefined {
  const query = url.searchParams;
  const times: number[] = [];
  for (const vendor of ['X-Amz', 'X-Goog']) {
    const [, ...date] = basicTime.exec(query.get(`${vendor}-Date`) ?? '') ?? [];
    const [year = NaN, month = NaN, day, hour, minute, second] = date.map(Number);
    const signedAt = Date.UTC(year, month - 1, day, hour, minute, second);
    times.push(signedAt + Number(query.get(`${vendor}-Expires`) ?? NaN) * 1000);
  }
  times.push(Date.parse(query.get('se') ?? ''));
  times.push(Number(query.get('Expires') ?? NaN) * 1000);
  const known = times.filter(Number.isFinite);
  return known.length === 0 ? undefined : Math.min(...known);
}

/**
 * How long a shared cache may use an answer; undefined when it may not store it. Redirects on the way can only
 * shorten that. The jitter only shortens: an origin's own limit is never passed.
 */
export function lifetimeOf(
  hops: readonly Hop[],
  now: number,
  rules: FreshnessRules,
  random: () => number = Math.random,
): Lifetime | undefined {
  let ttlMs = rules.maxTtlMs;
  let mustRevalidate = false;
  let signatureEnds = Infinity;
  for (const [index, { url, headers, isAuthorized }] of hops.entries()) {
    const control = directives(headers);
    if (!isStorable(headers, control) || (isAuthorized === true && !control.has('public'))) {
      return undefined;
    }
    const isLast = index === hops.length - 1;
    const stated = statedMs(headers, control, now);
    const lifeMs = stated ?? (isLast ? guessedMs(headers, now, rules) : Infinity);
    ttlMs = Math.min(ttlMs, lifeMs - (seconds(text(headers, 'age') || '0') ?? 0));
    const names = ['no-cache', 'must-revalidate', 'proxy-revalidate'];
    mustRevalidate ||= names.some((name) => control.has(name));
    signatureEnds = Math.min(signatureEnds, signedUntil(url) ?? Infinity);
  }
  ttlMs = Math.max(ttlMs, rules.minTtlMs, 0);
  if (ttlMs > jitterFromMs) {
    ttlMs -= ttlMs * 0.1 * random();
  }
  const freshUntil = Math.min(now + ttlMs, Math.max(now, signatureEnds));
  const keepMs = Math.max(rules.staleWhileRevalidateMs, rules.staleIfErrorMs);
  return {
    freshUntil: Math.floor(freshUntil),
    keepUntil: Math.ceil(freshUntil + keepMs),
    // A copy of a signed URL must not outlive the signature.
    mustRevalidate: mustRevalidate || signatureEnds !== Infinity,
  };
}
