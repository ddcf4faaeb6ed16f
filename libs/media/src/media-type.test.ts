import { describe, expect, it } from '@jest/globals';
import { cleanType, decideType } from './media-type.ts';
import { defaultMediaFetchOptions, type ContentCheck } from './options.ts';
import { sniffType } from './sniff-type.ts';
import { failureOf, gif, jpeg, png, webp } from './testing.ts';

const bytes = (text: string): Buffer => Buffer.from(text, 'latin1');

describe('sniffing', () => {
  it.each<[string, Buffer, string | undefined]>([
    ['JPEG', jpeg(), 'image/jpeg'],
    ['PNG', png, 'image/png'],
    ['GIF', gif, 'image/gif'],
    ['GIF87a', bytes('GIF87a'), 'image/gif'],
    ['WebP', webp, 'image/webp'],
    ['AVIF', bytes('\0\0\0\x1cftypavif'), 'image/avif'],
    ['HEIC', bytes('\0\0\0\x1cftypheic'), 'image/heic'],
    ['HEIF', bytes('\0\0\0\x1cftypmif1'), 'image/heic'],
    ['BMP', bytes('BM\x36'), 'image/bmp'],
    ['TIFF, little-endian', bytes('II*\0'), 'image/tiff'],
    ['TIFF, big-endian', bytes('MM\0*'), 'image/tiff'],
    ['ICO', bytes('\0\0\x01\0\x01'), 'image/x-icon'],
    ['JXL', bytes('\xff\x0a'), 'image/jxl'],
    ['JXL in a box', bytes('\0\0\0\x0cJXL \r\n\x87\n'), 'image/jxl'],
    ['SVG', bytes('<svg xmlns="http://www.w3.org/2000/svg"/>'), 'image/svg+xml'],
    ['SVG after a BOM and blanks', bytes('\xef\xbb\xbf \n\t<SVG>'), 'image/svg+xml'],
    ['a comment', bytes('<!-- x --><svg>'), 'application/xml'],
    ['XML', bytes('<?xml version="1.0"?><svg>'), 'application/xml'],
    ['HTML', bytes('\n<!DOCTYPE html>'), 'text/html'],
    ['HTML without doctype', bytes('<html>'), 'text/html'],
    ['PDF', bytes('%PDF-1.7'), 'application/pdf'],
    ['ZIP', bytes('PK\x03\x04'), 'application/zip'],
    ['gzip', bytes('\x1f\x8b\x08'), 'application/gzip'],
    ['MP4', bytes('\0\0\0\x18ftypisom'), 'video/mp4'],
    ['QuickTime', bytes('\0\0\0\x14ftypqt  '), 'video/quicktime'],
    ['WebM', bytes('\x1aE\xdf\xa3'), 'video/webm'],
    ['AVI', bytes('RIFF\0\0\0\0AVI '), 'video/x-msvideo'],
    ['WAV', bytes('RIFF\0\0\0\0WAVE'), 'audio/wav'],
    ['MP3 with a tag', bytes('ID3\x04'), 'audio/mpeg'],
    ['MP3 frame', bytes('\xff\xfb\x90'), 'audio/mpeg'],
    ['Ogg', bytes('OggS'), 'audio/ogg'],
    ['FLAC', bytes('fLaC'), 'audio/flac'],
    ['M4A', bytes('\0\0\0\x1cftypM4A '), 'audio/mp4'],
    ['text', bytes('jpeg-bytes'), undefined],
    ['zeros', Buffer.alloc(2000), undefined],
    ['nothing', Buffer.alloc(0), undefined],
    ['markup too late', bytes(`${' '.repeat(1030)}<html>`), undefined],
    ['half a signature', bytes('\x89PNG'), undefined],
  ])('%s', (_, content, type) => {
    expect(sniffType(content)).toBe(type);
  });
});

describe('a clean type token', () => {
  it.each([
    ['image/png', 'image/png'],
    [' IMAGE/PNG ; charset=utf-8', 'image/png'],
    ['image/png;base64,AAAA', 'image/png'],
    ['image/jpg', 'image/jpeg'],
    ['image/pjpeg', 'image/jpeg'],
    ['image/x-png', 'image/png'],
    ['binary/octet-stream', 'application/octet-stream'],
    ['image/svg+xml', 'image/svg+xml'],
    ['image/png, text/html', undefined],
    ['image', undefined],
    ['image/', undefined],
    ['', undefined],
    ['image/p"g', undefined],
  ])('%j is %j', (text, type) => {
    expect(cleanType(text)).toBe(type);
  });
});

describe('the type of a download', () => {
  const decide = (
    contentCheck: ContentCheck,
    declared: string | undefined,
    sniffed: string | undefined,
    modality: 'image' | 'video' | 'audio' = 'image',
  ): string =>
    decideType({
      doing: `downloading ${modality}`,
      modality,
      contentCheck,
      declared,
      sniffed,
      allowed:
        modality === 'image'
          ? defaultMediaFetchOptions.allowedImageTypes
          : [`${modality}/mp4`, `${modality}/webm`],
    });

  it.each<[ContentCheck, string | undefined, string | undefined, string]>([
    ['sniff', 'text/plain', 'image/jpeg', 'image/jpeg'],
    ['sniff', undefined, 'image/jpeg', 'image/jpeg'],
    ['sniff', 'image/jpeg', 'image/png', 'image/png'],
    ['sniff', 'image/jpeg', undefined, 'image/jpeg'],
    ['sniff', undefined, undefined, 'application/octet-stream'],
    ['sniff', 'application/octet-stream', undefined, 'application/octet-stream'],
    ['strict', 'image/jpeg', 'image/png', 'image/png'],
    ['off', 'text/html', 'text/html', 'text/html'],
    ['off', undefined, 'image/png', 'application/octet-stream'],
  ])('%s, declared %s, sniffed %s: %s', (check, declared, sniffed, type) => {
    expect(decide(check, declared, sniffed)).toBe(type);
  });

  it.each<[ContentCheck, string | undefined, string | undefined]>([
    ['sniff', 'image/png', 'text/html'],
    ['sniff', 'image/png', 'image/svg+xml'],
    ['sniff', 'image/png', 'application/zip'],
    ['sniff', 'image/png', 'image/avif'],
    ['sniff', 'text/plain', undefined],
    ['sniff', 'application/json', undefined],
    ['sniff', 'audio/mpeg', undefined],
    ['sniff', 'image/bmp', undefined],
    ['strict', 'image/png', undefined],
  ])('%s, declared %s, sniffed %s: refused', async (check, declared, sniffed) => {
    const failure = await failureOf(() => decide(check, declared, sniffed));
    expect(failure.code).toBe('media_type_not_allowed');
  });

  it('says what to send instead of HEIC', async () => {
    const failure = await failureOf(() => decide('sniff', 'image/heic', 'image/heic'));
    expect(failure.message).toContain('HEIC is not supported, send JPEG or PNG');
  });

  it('needs a listed type for video and audio', async () => {
    expect(decide('sniff', undefined, 'video/webm', 'audio')).toBe('audio/webm');
    expect(decide('sniff', 'audio/mp4', undefined, 'audio')).toBe('audio/mp4');
    expect(decide('sniff', 'text/plain', 'video/mp4', 'video')).toBe('video/mp4');
    const failure = await failureOf(() => decide('sniff', undefined, undefined, 'video'));
    expect(failure.code).toBe('media_type_not_allowed');
  });
});
