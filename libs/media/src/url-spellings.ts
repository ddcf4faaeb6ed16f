import { type LookupAddress } from 'node:dns';
import { isIP } from 'node:net';

/** A whole number from 0 to `below` - 1. */
export type Random = (below: number) => number;

/** Reproducible numbers (mulberry32). */
export function randomFrom(seed: number): Random {
  let state = seed >>> 0;
  return (below) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below;
  };
}

/** Beginnings of IPv4 addresses that somebody might want to reach through us, and of public ones. */
const firstBytes: readonly (readonly number[])[] = [
  ...[[127], [127, 0, 0], [10], [172, 16], [172, 31], [192, 168], [169, 254], [169, 254, 169, 254]],
  ...[[0], [0, 0, 0, 0], [100, 64], [100, 100, 100, 200], [168, 63, 129, 16], [192, 0, 0, 192]],
  ...[[198, 18], [192, 0, 2], [203, 0, 113], [192, 88, 99], [224], [240], [255, 255, 255, 255]],
  ...[
    [8, 8, 8, 8],
    [93, 184],
    [1, 1, 1, 1],
    [151, 101],
  ],
];

/** Where an IPv4 address hides in IPv6: `#` is its two groups in hex, `@` its dotted form. */
const embeddings = [
  ...['::ffff:#', '::ffff:@', '::#', '::@', '::ffff:0:#', '::ffff:0:@', '64:ff9b::#', '64:ff9b::@'],
  ...['64:ff9b:1::#', '2002:#::', '2002:#::1', '2600::5efe:#', '2600::200:5efe:#', 'fe80::5efe:#'],
  ...['2001:0:#::1', '0:0:0:0:0:ffff:#', '0000:0000:0000:0000:0000:ffff:#', '2606:4700::#'],
];

const plainIpv6 = [
  ...[
    '::',
    '::1',
    '0:0:0:0:0:0:0:1',
    'fe80::1',
    'fe80::a9fe:a9fe',
    'fec0::1',
    'fc00::1',
    'ff02::1',
  ],
  ...['fd00:ec2::254', '100::1', '4000::1', '2001:db8::1', '3fff::1', '5f00::1', '2620:4f:8000::1'],
  ...['2606:4700:4700::1111', '2a00:1450:4001::200e', '2001:4860:4860::8888'],
];

const names = [
  ...['localhost', 'LOCALHOST.', 'a.localhost', 'redis', 'kubernetes.default.svc', 'x.internal'],
  ...['ⓛocalhost', 'example.com', 'cdn.example.org', 'xn--r8jz45g.jp', '例え.jp', 'a..b', 'a.test'],
];

const oddities = [
  '\\',
  '\t',
  '\n',
  '\0',
  '%00',
  '%2f',
  '@',
  '#',
  '?',
  ' ',
  '\u3002',
  '\u200b',
  '[',
];
const userinfos = ['', '', '', '', '', '', '', 'user:pw@', 'example.com@', 'example.com#@', 'a\\@'];
const schemes = ['http', 'http', 'http', 'http', 'http', 'HTTP', 'https', 'file', 'ftp', 'data'];

/** Spells addresses and URLs as attackers and careless clients do. */
export class UrlSpellings {
  readonly #random: Random;

  constructor(random: Random) {
    this.#random = random;
  }

  /** What a resolver answers: one to three addresses of any kind. */
  answer(): LookupAddress[] {
    return Array.from({ length: 1 + Math.floor(this.#random(6) / 2) }, () => {
      const address = this.#random(3) > 0 ? this.#ipv4().join('.') : this.#ipv6();
      return { address, family: isIP(address) };
    });
  }

  /** A URL that is mostly of `port`. */
  url(port: number): string {
    const ports = ['', `:${port}`, `:0${port}`, ':443', ':22', ':0', ':65536', ':'];
    const host = this.#host();
    const at = this.#random(3) > 0 ? 0 : this.#random(ports.length);
    const text = `${this.#one(schemes)}://${this.#one(userinfos)}${host}${ports[at]}/${this.#random(99)}`;
    if (this.#random(8) > 0) return text;
    const cut = this.#random(text.length);
    return text.slice(0, cut) + this.#one(oddities) + text.slice(cut);
  }

  #one(list: readonly string[]): string {
    return list[this.#random(list.length)] ?? '';
  }

  #host(): string {
    switch (this.#random(5)) {
      case 0:
        return this.#one(names);
      case 1:
        return `n${this.#random(1e6)}.example.com`;
      case 2: {
        const text = `[${this.#ipv6()}]`;
        return this.#random(3) > 0 ? text : text.toUpperCase();
      }
      default:
        return this.#spelledIpv4();
    }
  }

  #ipv4(): number[] {
    const first = firstBytes[this.#random(firstBytes.length)] ?? [];
    const bytes = Array.from({ length: 4 }, (_, i) => first[i] ?? this.#random(256));
    return this.#random(2) > 0 ? bytes : bytes.map(() => this.#random(256));
  }

  #ipv6(): string {
    if (this.#random(3) === 0) return this.#one(plainIpv6);
    if (this.#random(4) === 0) {
      const groups = Array.from({ length: 8 }, () => this.#random(0x10000).toString(16));
      return groups.join(':');
    }
    const [a = 0, b = 0, c = 0, d = 0] = this.#ipv4();
    const groups = `${((a << 8) | b).toString(16)}:${((c << 8) | d).toString(16)}`;
    return this.#one(embeddings).replace('#', groups).replace('@', `${a}.${b}.${c}.${d}`);
  }

  /** Dotted or joined, decimal, octal or hex, with leading zeros, full-width digits or a dot at the end. */
  #spelledIpv4(): string {
    const bytes = this.#ipv4();
    const parts = 1 + this.#random(4);
    // The last part takes all bytes that are left.
    const last = bytes.slice(parts - 1).reduce((value, next) => value * 256 + next, 0);
    const numbers = [...bytes.slice(0, parts - 1), last].map((value) => this.#number(value));
    const dot = this.#random(6) === 0 ? this.#one(['\u3002', '\uff0e', '\uff61']) : '.';
    const text = numbers.join(dot) + (this.#random(6) === 0 ? '.' : '');
    return this.#random(6) > 0 ? text : text.replaceAll(/[0-9]/g, wideDigit);
  }

  #number(value: number): string {
    switch (this.#random(5)) {
      case 0:
        return `0x${value.toString(16)}`;
      case 1:
        return `0X00${value.toString(16).toUpperCase()}`;
      case 2:
        return `0${value.toString(8)}`;
      default:
        return String(value);
    }
  }
}

const wideDigit = (digit: string): string => String.fromCodePoint(0xff10 + Number(digit));
