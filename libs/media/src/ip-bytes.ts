import { isIP } from 'node:net';

/** An address prefix in network byte order. */
export interface Cidr {
  readonly text: string;
  /** 4 or 16 bytes. */
  readonly bytes: readonly number[];
  readonly prefixBits: number;
}

function ipv6Bytes(text: string): readonly number[] {
  const dot = text.lastIndexOf(':') + 1;
  const [a = 0, b = 0, c = 0, d = 0] = text.slice(dot).split('.').map(Number);
  const hex = text.includes('.')
    ? `${text.slice(0, dot)}${((a << 8) | b).toString(16)}:${((c << 8) | d).toString(16)}`
    : text;
  const [before = [], after = []] = hex
    .split('::')
    .map((half) => (half === '' ? [] : half.split(':').map((group) => parseInt(group, 16))));
  const zeros = new Array<number>(8 - before.length - after.length).fill(0);
  return [...before, ...zeros, ...after].flatMap((group) => [group >> 8, group & 0xff]);
}

/**
 * The 4 or 16 bytes of a textual address, or undefined for anything else; a scope (`%eth0`) is refused.
 * Own code, because ipaddr.js reads the IPv4-compatible `::8.8.8.8` as the mapped `::ffff:8.8.8.8`.
 */
export function parseAddress(text: string): readonly number[] | undefined {
  const family = text.includes('%') ? 0 : isIP(text);
  if (family === 4) {
    return text.split('.').map(Number);
  }
  return family === 6 ? ipv6Bytes(text) : undefined;
}

/** Reads `address/bits`; throws an Error that names the text when it is not a CIDR. */
export function parseCidr(text: string): Cidr {
  const [, address = '', bitsText = ''] = /^([^/]+)\/(\d{1,3})$/.exec(text) ?? [];
  const bytes = parseAddress(address);
  const prefixBits = Number(bitsText);
  if (bytes === undefined || prefixBits > bytes.length * 8) {
    throw new Error(`expected a CIDR like 10.20.0.0/16, got ${JSON.stringify(text)}`);
  }
  return { text, bytes, prefixBits };
}

/** Whether the address lies in the prefix; addresses of the other family never do. */
export function isInCidr(bytes: readonly number[], cidr: Cidr): boolean {
  if (bytes.length !== cidr.bytes.length) {
    return false;
  }
  let bits = cidr.prefixBits;
  for (let i = 0; bits > 0; i += 1, bits -= 8) {
    const difference = (bytes[i] ?? 0) ^ (cidr.bytes[i] ?? 0);
    if (bits >= 8 ? difference !== 0 : difference >> (8 - bits) !== 0) {
      return false;
    }
  }
  return true;
}
