import { forbiddenIpv4, forbiddenIpv6, type ForbiddenRange } from './address-table.ts';
import { type Cidr, isInCidr, parseAddress, parseCidr } from './ip-bytes.ts';

/** What a deployment opens and closes beyond the table of media-fetcher.md 3.3. */
export interface AddressPolicyConfig {
  /** Opens the RFC 1918 ranges. */
  readonly allowPrivateNetworks?: boolean;
  /** Opens parts of ranges that may be opened by name, for example `100.64.3.0/24`. */
  readonly allowedPrivateCidrs?: readonly string[];
  /** Closes public ranges too and wins over everything. */
  readonly blockedCidrs?: readonly string[];
  /** `unwrap` judges the IPv4 address inside `64:ff9b::/96`, for clusters that have IPv6 only and DNS64. */
  readonly nat64?: 'block' | 'unwrap';
  /** Further NAT64 prefixes to unwrap, for example `64:ff9b:1::/48`. */
  readonly nat64Prefixes?: readonly string[];
  /** Opens loopback for tests with real servers. No configuration file reaches it. */
  readonly testOnlyAllowLoopback?: boolean;
}

/** Returns why an address (as text) may not be contacted, or undefined when it may. */
export type AddressGuard = (address: string) => string | undefined;

const mapped = parseCidr('::ffff:0:0/96');
const globalUnicast = parseCidr('2000::/3');
const nat64Lengths = new Set([32, 40, 48, 56, 64, 96]);

interface CompiledRange extends Cidr {
  readonly range: ForbiddenRange;
}

const compile = (ranges: readonly ForbiddenRange[]): readonly CompiledRange[] =>
  ranges.map((range) => ({ ...parseCidr(range.cidr), range }));

const compiledIpv4 = compile(forbiddenIpv4);
const compiledIpv6 = compile(forbiddenIpv6);

/** Interface identifier `[0200|0000]:5efe:a.b.c.d`, in any prefix (RFC 5214). */
function isIsatap(bytes: readonly number[]): boolean {
  return (
    ((bytes[8] ?? 0) & 0xfd) === 0 && bytes[9] === 0 && bytes[10] === 0x5e && bytes[11] === 0xfe
  );
}

/** The IPv4 address inside a NAT64 address; byte 8 is always skipped (RFC 6052 section 2.2). */
function embeddedIpv4(bytes: readonly number[], prefixBits: number): readonly number[] {
  return bytes.filter((_, i) => i >= prefixBits / 8 && i !== 8).slice(0, 4);
}

/**
 * Builds the address guard. It judges parsed bytes, never text: IPv4 by a deny list, IPv6 by an allow list
 * (global unicast) with a deny list inside. Throws an Error for a malformed CIDR.
 */
export function createAddressGuard(config: AddressPolicyConfig = {}): AddressGuard {
  const opened = (config.allowedPrivateCidrs ?? []).map(parseCidr);
  const closed = (config.blockedCidrs ?? []).map(parseCidr);
  const nat64 = (config.nat64Prefixes ?? []).map(parseCidr);
  for (const prefix of nat64) {
    if (prefix.bytes.length !== 16 || !nat64Lengths.has(prefix.prefixBits)) {
      throw new Error(
        `expected an IPv6 prefix of 32, 40, 48, 56, 64 or 96 bits, got ${prefix.text}`,
      );
    }
  }
  if (config.nat64 === 'unwrap') {
    nat64.push(parseCidr('64:ff9b::/96'));
  }

  const isListed = (bytes: readonly number[]): boolean =>
    opened.some((cidr) => isInCidr(bytes, cidr));

  const isOpened = (bytes: readonly number[], { openableBy }: ForbiddenRange): boolean => {
    switch (openableBy) {
      case 'never':
        return false;
      case 'loopback':
        return config.testOnlyAllowLoopback === true;
      case 'private':
        return config.allowPrivateNetworks === true || isListed(bytes);
      case 'cidr':
        return isListed(bytes);
    }
  };

  const judge = (bytes: readonly number[]): string | undefined => {
    const byOperator = closed.find((cidr) => isInCidr(bytes, cidr));
    if (byOperator !== undefined) {
      return `blocked_cidrs ${byOperator.text}`;
    }
    if (bytes.length === 16) {
      if (isInCidr(bytes, mapped)) {
        return judge(bytes.slice(12));
      }
      const translated = nat64.find((cidr) => isInCidr(bytes, cidr));
      if (translated !== undefined) {
        return judge(embeddedIpv4(bytes, translated.prefixBits));
      }
      if (isIsatap(bytes)) {
        return 'ISATAP';
      }
    }
    const table = bytes.length === 4 ? compiledIpv4 : compiledIpv6;
    const hit = table.find((candidate) => isInCidr(bytes, candidate));
    if (hit !== undefined) {
      return isOpened(bytes, hit.range) ? undefined : `${hit.range.what} ${hit.text}`;
    }
    return bytes.length === 16 && !isInCidr(bytes, globalUnicast)
      ? 'outside global unicast'
      : undefined;
  };

  return (address) => {
    const bytes = parseAddress(address);
    return bytes === undefined ? 'not an address' : judge(bytes);
  };
}
