const window = 64 * 1024;

/**
 * Whether an image ends where its format says it must. Asked when the origin promised no length, since then
 * every cut looks like an end (media-fetcher.md 5.1). Types without a known ending pass.
 */
export function hasWholeTail(type: string, bytes: Buffer): boolean {
  const tail = bytes.subarray(Math.max(0, bytes.length - window));
  switch (type) {
    case 'image/jpeg':
      return tail.includes('\xff\xd9', 0, 'latin1');
    case 'image/png':
      return tail.includes('IEND', 0, 'latin1');
    case 'image/gif': {
      // A window searched for 0x3B would find one in any half file.
      const last = tail.findLast((byte) => byte !== 0);
      return last === 0x3b;
    }
    case 'image/webp':
      return bytes.length >= 8 && bytes.readUInt32LE(4) + 8 <= bytes.length;
    default:
      return true;
  }
}
