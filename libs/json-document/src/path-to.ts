const [quote, backslash, comma, colon] = [0x22, 0x5c, 0x2c, 0x3a];
const [openBracket, closeBracket, openBrace, closeBrace] = [0x5b, 0x5d, 0x7b, 0x7d];

/** Texts and other bytes that are looked at: a path is for people, and not worth holding other requests up. */
const maxLooks = 200_000;

/** Names that may stand in a message: fields of APIs are words. */
const plainName = /^[a-z_]\w{0,39}$/i;

interface Container {
  readonly isObject: boolean;
  /** In an object before the colon: a string is a name. */
  isAtName: boolean;
  /** Of the member or element that was begun; undefined for a name that is no plain word. */
  at: string | number | undefined;
}

/**
 * Where in a JSON text a byte stands, for a message: `messages[0].content`, or nothing at the top level. What stands before
 * the byte must be valid. The path ends at the first member name that is no plain word of at most 40 letters; there is none
 * to a byte that takes long to find.
 */
export function pathTo(bytes: Uint8Array, offset: number): string {
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, Math.min(offset, bytes.length));
  const open: Container[] = [];
  let looks = 0;
  for (let at = 0; at < text.length; at++) {
    if (++looks > maxLooks) return '';
    const inner = open.at(-1);
    const byte = text[at];
    if (byte === quote) {
      let end = text.indexOf(quote, at + 1);
      while (end >= 0 && isEscaped(text, end) && looks++ < maxLooks) {
        end = text.indexOf(quote, end + 1);
      }
      if (inner?.isAtName) {
        const isShort = end >= 0 && end - at <= 41;
        const name = isShort ? text.toString('latin1', at + 1, end) : '';
        inner.at = plainName.test(name) ? name : undefined;
      }
      if (end < 0) break;
      at = end;
    } else if (byte === openBrace) open.push({ isObject: true, isAtName: true, at: undefined });
    else if (byte === openBracket) open.push({ isObject: false, isAtName: false, at: 0 });
    else if (byte === closeBrace || byte === closeBracket) open.pop();
    else if (inner && byte === colon) inner.isAtName = false;
    else if (inner && byte === comma) {
      inner.isAtName = inner.isObject;
      if (typeof inner.at === 'number') inner.at++;
    }
  }
  let path = '';
  for (const { at } of open) {
    if (at === undefined) break;
    if (typeof at === 'number') path += `[${at}]`;
    else path += path === '' ? at : `.${at}`;
  }
  return path;
}

function isEscaped(text: Buffer, at: number): boolean {
  let backslashes = 0;
  while (text[at - 1 - backslashes] === backslash) backslashes++;
  return backslashes % 2 === 1;
}
