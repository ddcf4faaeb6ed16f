/** What tensor blobs are made of; whole numbers from 0 to 2 ** 32 - 1. */
export type Msgpack =
  null | boolean | number | string | readonly Msgpack[] | { readonly [key: string]: Msgpack };

const UINT_CODES = [0xcc, 0xcd, 0xce] as const;
const EXTENSION_CODES = [0xc7, 0xc8, 0xc9] as const;
const FIX_LIMIT = { uint: 0x80, text: 32, items: 16 } as const;
const FIX_CODE = { text: 0xa0, array: 0x90, map: 0x80 } as const;

/** The shortest msgpack encoding of a value. Texts, lists and maps must be short: under 32 bytes or 16 items. */
export function encodeMsgpack(value: Msgpack): Buffer {
  if (value === null) return Buffer.of(0xc0);
  if (typeof value === 'boolean') return Buffer.of(value ? 0xc3 : 0xc2);
  if (typeof value === 'number') {
    return value < FIX_LIMIT.uint ? Buffer.of(value) : sized(UINT_CODES, value);
  }
  if (typeof value === 'string') {
    const bytes = Buffer.from(value);
    return Buffer.concat([short(FIX_CODE.text, bytes.length, FIX_LIMIT.text), bytes]);
  }
  if (isList(value)) {
    return Buffer.concat([arrayHead(value.length), ...value.map(encodeMsgpack)]);
  }
  const entries = Object.entries(value);
  return Buffer.concat([
    mapHead(entries.length),
    ...entries.flatMap(([key, item]) => [encodeMsgpack(key), encodeMsgpack(item)]),
  ]);
}

/** What stands in front of the items of a list. */
export function arrayHead(items: number): Buffer {
  return short(FIX_CODE.array, items, FIX_LIMIT.items);
}

/** What stands in front of the keys and values of a map. */
export function mapHead(entries: number): Buffer {
  return short(FIX_CODE.map, entries, FIX_LIMIT.items);
}

/** What stands in front of the bytes of an extension type; not for the lengths 1, 2, 4, 8 and 16. */
export function extensionHead(type: number, byteLength: number): Buffer {
  return Buffer.concat([sized(EXTENSION_CODES, byteLength), Buffer.of(type)]);
}

function short(code: number, size: number, limit: number): Buffer {
  if (size >= limit) throw new RangeError(`${size} is too long for this msgpack writer`);
  return Buffer.of(code + size);
}

/** A code for one, two or four bytes, and the number in as many. */
function sized([one, two, four]: readonly [number, number, number], value: number): Buffer {
  if (value < 0x100) return Buffer.of(one, value);
  if (value < 0x10000) return Buffer.of(two, value >> 8, value & 0xff);
  const bytes = Buffer.of(four, 0, 0, 0, 0);
  bytes.writeUInt32BE(value, 1);
  return bytes;
}

function isList(value: Msgpack): value is readonly Msgpack[] {
  return Array.isArray(value);
}
