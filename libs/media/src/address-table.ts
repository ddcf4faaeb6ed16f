/**
 * Who may open a range: `private` = `allow_private_networks` or an explicit CIDR, `cidr` = an explicit CIDR
 * only, `never` = no configuration, `loopback` = the test hook only.
 */
export type OpenableBy = 'private' | 'cidr' | 'never' | 'loopback';

/** One forbidden range. */
export interface ForbiddenRange {
  readonly cidr: string;
  readonly openableBy: OpenableBy;
  readonly what: string;
}

const range = (cidr: string, openableBy: OpenableBy, what: string): ForbiddenRange => ({
  cidr,
  openableBy,
  what,
});

/** Forbidden IPv4; the first match decides, so exceptions inside a wider range stand before it. */
export const forbiddenIpv4: readonly ForbiddenRange[] = [
  range('0.0.0.0/8', 'never', 'this host'),
  range('10.0.0.0/8', 'private', 'private network'),
  range('172.16.0.0/12', 'private', 'private network'),
  range('192.168.0.0/16', 'private', 'private network'),
  range('100.100.100.200/32', 'never', 'cloud metadata'),
  range('100.64.0.0/10', 'cidr', 'carrier NAT'),
  range('127.0.0.0/8', 'loopback', 'loopback'),
  // Publicly numbered, yet it answers only to machines inside Azure.
  range('168.63.129.16/32', 'never', 'cloud platform'),
  range('169.254.0.0/16', 'never', 'link-local and cloud metadata'),
  range('192.0.0.0/24', 'never', 'IETF assignments and cloud metadata'),
  range('192.0.2.0/24', 'cidr', 'documentation'),
  range('198.51.100.0/24', 'cidr', 'documentation'),
  range('203.0.113.0/24', 'cidr', 'documentation'),
  range('192.31.196.0/24', 'cidr', 'AS112'),
  range('192.52.193.0/24', 'cidr', 'AMT'),
  range('192.175.48.0/24', 'cidr', 'AS112'),
  range('192.88.99.0/24', 'never', '6to4 relay'),
  range('198.18.0.0/15', 'cidr', 'benchmarking'),
  range('224.0.0.0/4', 'never', 'multicast'),
  range('240.0.0.0/4', 'never', 'reserved and broadcast'),
];

/** IPv6 that is forbidden inside, or openable outside, the global unicast block `2000::/3`. */
export const forbiddenIpv6: readonly ForbiddenRange[] = [
  range('::1/128', 'loopback', 'loopback'),
  range('2001::/23', 'never', 'special assignments and tunnels'),
  range('2001:db8::/32', 'never', 'documentation'),
  range('3fff::/20', 'never', 'documentation'),
  range('2002::/16', 'never', '6to4'),
  range('2620:4f:8000::/48', 'cidr', 'AS112'),
  range('fd00:ec2::/32', 'never', 'cloud metadata'),
  range('fc00::/7', 'cidr', 'unique local'),
  // Named for the log only: all of them lie outside 2000::/3.
  range('::/96', 'never', 'unspecified or IPv4-compatible'),
  range('::ffff:0:0:0/96', 'never', 'IPv4-translated'),
  range('64:ff9b::/96', 'never', 'NAT64'),
  range('64:ff9b:1::/48', 'never', 'local NAT64'),
  range('100::/64', 'never', 'discard'),
  range('100:0:0:1::/64', 'never', 'dummy'),
  range('5f00::/16', 'never', 'segment routing'),
  range('fe80::/10', 'never', 'link-local'),
  range('fec0::/10', 'never', 'site-local'),
  range('ff00::/8', 'never', 'multicast'),
];
