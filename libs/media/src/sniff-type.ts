/** Bytes of the beginning that suffice for every signature and for markup after blanks. */
export const sniffBytes = 1088;

const markupBytes = 1024;

interface Signature {
  readonly type: string;
  /** Text at an offset, one character per byte; `?` stands for any byte. */
  readonly pattern: string;
  readonly offset?: number;
}

const signatures: readonly Signature[] = [
  { type: 'image/jpeg', pattern: '\xff\xd8\xff' },
  { type: 'image/png', pattern: '\x89PNG\r\n\x1a\n' },
  { type: 'image/gif', pattern: 'GIF87a' },
  { type: 'image/gif', pattern: 'GIF89a' },
  { type: 'image/webp', pattern: 'RIFF????WEBP' },
  { type: 'video/x-msvideo', pattern: 'RIFF????AVI ' },
  { type: 'audio/wav', pattern: 'RIFF????WAVE' },
  { type: 'image/bmp', pattern: 'BM' },
  { type: 'image/tiff', pattern: 'II*\0' },
  { type: 'image/tiff', pattern: 'MM\0*' },
  { type: 'image/x-icon', pattern: '\0\0\x01\0' },
  { type: 'image/jxl', pattern: '\xff\x0a' },
  { type: 'image/jxl', pattern: '\0\0\0\x0cJXL \r\n\x87\n' },
  { type: 'application/pdf', pattern: '%PDF-' },
  { type: 'application/zip', pattern: 'PK' },
  { type: 'application/gzip', pattern: '\x1f\x8b' },
  { type: 'video/webm', pattern: '\x1aE\xdf\xa3' },
  { type: 'audio/ogg', pattern: 'OggS' },
  { type: 'audio/flac', pattern: 'fLaC' },
  { type: 'audio/mpeg', pattern: 'ID3' },
];

/** Brands of ISO media files (`ftyp` box) that are not plain MP4. */
const brands = new Map([
  ['avif', 'image/avif'],
  ['avis', 'image/avif'],
  ['heic', 'image/heic'],
  ['heix', 'image/heic'],
  ['hevc', 'image/heic'],
  ['mif1', 'image/heic'],
  ['msf1', 'image/heic'],
  ['M4A ', 'audio/mp4'],
  ['qt  ', 'video/quicktime'],
]);

const markup: readonly (readonly [string, string])[] = [
  ['<svg', 'image/svg+xml'],
  ['<!doctype', 'text/html'],
  ['<html', 'text/html'],
  ['<?xml', 'application/xml'],
  ['<!--', 'application/xml'],
];

function matches(head: string, { pattern, offset = 0 }: Signature): boolean {
  for (let i = 0; i < pattern.length; i += 1) {
    if (pattern[i] !== '?' && pattern[i] !== head[offset + i]) {
      return false;
    }
  }
  return true;
}

/**
 * The type that the first bytes prove, or undefined when no signature matches (media-fetcher.md 5.2).
 * Reads at most `sniffBytes`.
 */
export function sniffType(bytes: Uint8Array): string | undefined {
  const head = Buffer.from(
    bytes.buffer,
    bytes.byteOffset,
    Math.min(bytes.length, sniffBytes),
  ).toString('latin1');
  const found = signatures.find((signature) => matches(head, signature));
  if (found !== undefined) {
    return found.type;
  }
  if (head.slice(4, 8) === 'ftyp') {
    return brands.get(head.slice(8, 12)) ?? 'video/mp4';
  }
  if (head[0] === '\xff' && head.charCodeAt(1) >= 0xe0) {
    return 'audio/mpeg';
  }
  const text = head
    .slice(0, markupBytes)
    .replace(/^\xef\xbb\xbf/, '')
    .trimStart()
    .toLowerCase();
  return markup.find(([start]) => text.startsWith(start))?.[1];
}
