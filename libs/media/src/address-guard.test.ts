import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import ipaddr from 'ipaddr.js';
import { type AddressPolicyConfig, createAddressGuard } from './address-guard.ts';
import { forbiddenIpv4, forbiddenIpv6 } from './address-table.ts';
import { isInCidr, parseAddress, parseCidr } from './ip-bytes.ts';

const everythingOpen: AddressPolicyConfig = {
  allowPrivateNetworks: true,
  allowedPrivateCidrs: ['0.0.0.0/0', '::/0'],
};

const blocked = [
  ...['169.254.169.254', '127.0.0.1', '::1', 'fe80::1', '0.0.0.0', '::', '100.64.1.1', '10.0.0.1'],
  ...['172.16.0.1', '172.31.255.255', '192.168.1.1', 'fc00::1', '::ffff:169.254.169.254'],
  ...[
    '::ffff:10.0.0.1',
    '::ffff:7f00:1',
    '::ffff:a9fe:a9fe',
    '::127.0.0.1',
    '::7f00:1',
    '::8.8.8.8',
  ],
  ...['::ffff:0:127.0.0.1', '::ffff:0:8.8.8.8', '64:ff9b::169.254.169.254', '64:ff9b::8.8.8.8'],
  ...['64:ff9b:1::a9fe:a9fe', '2002:7f00:1::', '2002:a9fe:a9fe::', '2002:808:808::'],
  ...['2001:0:4136:e378:8000:63bf:3fff:fdd2', '2600::5efe:7f00:1', '2600::200:5efe:808:808'],
  ...[
    'fe80::a9fe:a9fe',
    'fd00:ec2::254',
    'fec0::1',
    'ff02::1',
    '100::1',
    '100:0:0:1::1',
    '4000::1',
  ],
  ...['5f00::1', '2001:db8::1', '3fff::1', '2620:4f:8000::1', '168.63.129.16', '100.100.100.200'],
  ...['192.0.0.192', '192.0.2.1', '198.51.100.1', '203.0.113.1', '192.31.196.1', '192.52.193.1'],
  ...['192.175.48.1', '192.88.99.1', '198.18.0.1', '198.19.255.255', '224.0.0.1', '240.0.0.1'],
  ...['255.255.255.255', '::ffff:198.18.0.1'],
];

const open = [
  ...['8.8.8.8', '1.1.1.1', '172.15.255.255', '172.32.0.1', '100.63.255.255', '100.128.0.1'],
  ...['198.17.255.255', '223.255.255.255', '2001:4860:4860::8888', '2606:4700:4700::1111'],
  ...['::ffff:8.8.8.8', '::ffff:1.1.1.1', '2001:200::1', '2600::5eff:1.1.1.1'],
];

describe('the address guard', () => {
  const guard = createAddressGuard();

  it.each(blocked)('blocks %s', (address) => {
    expect(guard(address)).toEqual(expect.any(String));
  });

  it.each(open)('lets %s pass', (address) => {
    expect(guard(address)).toBeUndefined();
  });

  it.each([
    '',
    'example.com',
    '127.1',
    '0x7f.0.0.1',
    '010.0.0.1',
    'fe80::1%eth0',
    '1.2.3.4.5',
    '[::1]',
  ])('blocks %j, which is not an address', (text) => {
    expect(guard(text)).toBe('not an address');
  });
});

describe('openings', () => {
  it.each(['10.0.0.1', '172.16.0.1', '192.168.1.1', '::ffff:10.0.0.1'])(
    'allow_private_networks opens %s',
    (address) => {
      expect(createAddressGuard({ allowPrivateNetworks: true })(address)).toBeUndefined();
    },
  );

  it.each(['169.254.169.254', '127.0.0.1', '0.0.0.0', '100.64.1.1', 'fc00::1', '198.18.0.1'])(
    'allow_private_networks leaves %s blocked',
    (address) => {
      expect(createAddressGuard({ allowPrivateNetworks: true })(address)).toBeDefined();
    },
  );

  it('an allowed CIDR opens its own addresses only', () => {
    const guard = createAddressGuard({
      allowedPrivateCidrs: ['10.20.0.0/16', 'fd12::/16', '100.64.0.0/10'],
    });
    expect(guard('10.20.1.1')).toBeUndefined();
    expect(guard('::ffff:10.20.1.1')).toBeUndefined();
    expect(guard('fd12::1')).toBeUndefined();
    expect(guard('100.64.1.1')).toBeUndefined();
    expect(guard('10.21.1.1')).toBeDefined();
    expect(guard('fd13::1')).toBeDefined();
  });

  it.each([
    ...['0.0.0.0', '100.100.100.200', '127.0.0.1', '::1', '168.63.129.16', '169.254.169.254'],
    ...[
      '192.0.0.192',
      '192.88.99.1',
      '224.0.0.1',
      '255.255.255.255',
      '::8.8.8.8',
      '64:ff9b::808:808',
    ],
    ...[
      '2002:808:808::',
      '2001::1',
      '2001:db8::1',
      '2600::5efe:808:808',
      'fd00:ec2::254',
      'fe80::1',
    ],
    ...['ff02::1', '4000::1'],
  ])('nothing in the configuration opens %s', (address) => {
    expect(createAddressGuard(everythingOpen)(address)).toBeDefined();
  });

  it('blocked CIDRs win over every opening and close public ranges', () => {
    const guard = createAddressGuard({
      ...everythingOpen,
      blockedCidrs: ['10.1.0.0/16', '8.8.8.0/24', '2606::/16'],
    });
    expect(guard('10.1.2.3')).toContain('10.1.0.0/16');
    expect(guard('8.8.8.8')).toBeDefined();
    expect(guard('::ffff:8.8.8.8')).toBeDefined();
    expect(guard('2606:4700::1')).toBeDefined();
    expect(guard('10.2.0.1')).toBeUndefined();
  });

  it('nat64: unwrap judges the address inside', () => {
    const guard = createAddressGuard({
      nat64: 'unwrap',
      nat64Prefixes: ['64:ff9b:1::/48', '2a00:1::/32'],
    });
    expect(guard('64:ff9b::808:808')).toBeUndefined();
    expect(guard('64:ff9b::a9fe:a9fe')).toBeDefined();
    // RFC 6052 section 2.4 for 192.0.2.33: the bytes go around the eighth.
    expect(guard('64:ff9b:1:808:8:800::')).toBeUndefined();
    expect(guard('64:ff9b:1:a9fe:a9:fe00::')).toBeDefined();
    expect(guard('2a00:1:808:808::')).toBeUndefined();
    expect(guard('2a00:1:7f00:1::')).toBeDefined();
  });

  it('the test hook opens loopback and nothing else', () => {
    const guard = createAddressGuard({ testOnlyAllowLoopback: true });
    expect(['127.0.0.1', '::1', '::ffff:127.0.0.1'].map(guard)).toEqual([
      undefined,
      undefined,
      undefined,
    ]);
    expect(guard('10.0.0.1')).toBeDefined();
    expect(guard('::127.0.0.1')).toBeDefined();
  });

  it.each([
    { allowedPrivateCidrs: ['10.0.0.0'] },
    { blockedCidrs: ['10.0.0.0/33'] },
    { allowedPrivateCidrs: ['10.0/8'] },
    { nat64Prefixes: ['64:ff9b::/95'] },
    { nat64Prefixes: ['10.0.0.0/8'] },
  ])('a malformed CIDR stops the start: %j', (config) => {
    expect(() => createAddressGuard(config)).toThrow(/expected/);
  });
});

const byte = fc.integer({ min: 0, max: 255 });
const mostlySpecial = fc.oneof(fc.constantFrom(0, 10, 100, 127, 169, 172, 192, 198, 203), byte);
const fourBytes = fc.tuple(byte, byte, byte, byte);
const sixteenBytes = fc.array(byte, { minLength: 16, maxLength: 16 });

const textOf = (bytes: readonly number[]): string => ipaddr.fromByteArray([...bytes]).toString();

/** Random bytes below a prefix. */
function inside(cidrText: string): fc.Arbitrary<number[]> {
  const { bytes, prefixBits } = parseCidr(cidrText);
  return fc.array(byte, { minLength: bytes.length, maxLength: bytes.length }).map((random) =>
    random.map((value, i) => {
      const bits = Math.min(8, Math.max(0, prefixBits - i * 8));
      const mask = (0xff00 >> bits) & 0xff;
      return ((bytes[i] ?? 0) & mask) | (value & ~mask);
    }),
  );
}

describe('the address guard, for any address', () => {
  const guard = createAddressGuard();

  it.each([...forbiddenIpv4, ...forbiddenIpv6])('blocks all of $cidr', ({ cidr }) => {
    fc.assert(
      fc.property(inside(cidr), (bytes) => {
        return isInCidr(bytes, parseCidr(cidr)) && guard(textOf(bytes)) !== undefined;
      }),
      { numRuns: 200 },
    );
  });

  it('blocks every IPv4 that ipaddr.js calls special, in every embedding', () => {
    fc.assert(
      fc.property(mostlySpecial, byte, byte, byte, (a, b, c, d) => {
        const address = `${a}.${b}.${c}.${d}`;
        fc.pre(ipaddr.IPv4.parse(address).range() !== 'unicast');
        const pair = ((a << 8) | b).toString(16) + ':' + ((c << 8) | d).toString(16);
        return [
          address,
          `::ffff:${address}`,
          `::${address}`,
          `::ffff:0:${address}`,
          `64:ff9b::${pair}`,
          `64:ff9b:1::${pair}`,
          `2002:${pair}::`,
          `2600::5efe:${pair}`,
          `2600::200:5efe:${pair}`,
        ].every((spelling) => guard(spelling) !== undefined);
      }),
      { numRuns: 3000 },
    );
  });

  it('blocks every IPv6 outside 2000::/3 except mapped public IPv4', () => {
    const mapped = parseCidr('::ffff:0:0/96');
    fc.assert(
      fc.property(sixteenBytes, (bytes) => {
        fc.pre((bytes[0] ?? 0) >> 5 !== 1 && !isInCidr(bytes, mapped));
        return guard(textOf(bytes)) !== undefined;
      }),
      { numRuns: 3000 },
    );
  });

  it('judges a mapped address exactly as the IPv4 address', () => {
    fc.assert(
      fc.property(fourBytes, (bytes) => {
        const address = bytes.join('.');
        return guard(`::ffff:${address}`) === guard(address);
      }),
    );
  });

  const sparseBytes = fc.array(fc.oneof(fc.constant(0), byte), { minLength: 16, maxLength: 16 });

  it('reads back the bytes of every printed address', () => {
    fc.assert(
      fc.property(fc.oneof(fourBytes, sixteenBytes, sparseBytes), (bytes) => {
        return parseAddress(textOf(bytes))?.join() === bytes.join();
      }),
      { numRuns: 3000 },
    );
  });

  it('reads a dotted tail as the last four bytes', () => {
    fc.assert(
      fc.property(fc.oneof(sixteenBytes, sparseBytes), (bytes) => {
        const groups = textOf(bytes);
        const full = ipaddr.IPv6.parse(groups)
          .toNormalizedString()
          .split(':')
          .slice(0, 6)
          .join(':');
        const text = `${full}:${bytes.slice(12).join('.')}`;
        return parseAddress(text)?.join() === bytes.join();
      }),
    );
    expect(parseAddress('::8.8.8.8')).toEqual([...new Array<number>(12).fill(0), 8, 8, 8, 8]);
  });
});
