import { type DomainRule } from '@llm-d/media';

/** Covers no host: an empty list would allow any. */
const nothing: DomainRule = {
  host: '',
  matchesSubdomains: false,
  matchesHost: false,
  httpsOnly: false,
  port: undefined,
};

/** The rules that cover what both lists cover; an empty list allows every host. */
export function intersectDomains(
  one: readonly DomainRule[],
  other: readonly DomainRule[],
): readonly DomainRule[] {
  if (one.length === 0) return other;
  if (other.length === 0) return one;
  const both = one.flatMap((a) => other.flatMap((b) => intersectRules(a, b) ?? []));
  return both.length === 0 ? [nothing] : both;
}

function intersectRules(a: DomainRule, b: DomainRule): DomainRule | undefined {
  if (a.port !== undefined && b.port !== undefined && a.port !== b.port) return undefined;
  const hosts = intersectHosts(a, b);
  return hosts && { ...hosts, httpsOnly: a.httpsOnly || b.httpsOnly, port: a.port ?? b.port };
}

type Hosts = Pick<DomainRule, 'host' | 'matchesHost' | 'matchesSubdomains'>;

function intersectHosts(a: DomainRule, b: DomainRule): Hosts | undefined {
  if (a.host === b.host) {
    const matchesHost = a.matchesHost && b.matchesHost;
    const matchesSubdomains = a.matchesSubdomains && b.matchesSubdomains;
    return matchesHost || matchesSubdomains
      ? { host: a.host, matchesHost, matchesSubdomains }
      : undefined;
  }
  // One of two domains lies in the other or they have nothing in common.
  if (a.matchesSubdomains && b.host.endsWith(`.${a.host}`)) return b;
  if (b.matchesSubdomains && a.host.endsWith(`.${b.host}`)) return a;
  return undefined;
}
