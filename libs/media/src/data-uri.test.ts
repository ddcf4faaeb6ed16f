import { describe, expect, it } from '@jest/globals';
import { parseDataUri } from './data-uri.ts';
import { defaultMediaLimits } from './options.ts';
import { failureOf, gif, jpeg, optionsWith, png, pngOf, webp } from './testing.ts';

const ok = png.toString('base64');
const parse = (text: string, changes = {}) => parseDataUri(Buffer.from(text), optionsWith(changes));

describe('data URIs (C25)', () => {
  it.each([
    [`data:image/png;base64,${ok}`, 'image/png'],
    [`DATA:IMAGE/PNG;BASE64,${ok}`, 'image/png'],
    [`data:image/png;name=a;base64,${ok}`, 'image/png'],
    [`data:image/png;base64;name=a,${ok}`, 'image/png'],
    [`data:image/png;charset=utf-8;base64,${ok}`, 'image/png'],
    [`data:image/png ; base64 ,${ok}`, 'image/png'],
    [`data:IMAGE/PNG ;base64,${ok}`, 'image/png'],
    [`data:image/jpg;base64,${jpeg().toString('base64')}`, 'image/jpeg'],
    ['data:image/jpeg;base64,/9j/4AAQSkZJRg==', 'image/jpeg'],
    [`data:image/gif;base64,${gif.toString('base64')}`, 'image/gif'],
    [`data:image/webp;base64,${webp.toString('base64')}`, 'image/webp'],
    ['data:image/png;base64,AAAA', 'image/png'],
    // The reader decides by the bytes, so a wrong one of the accepted types does no harm.
    [`data:image/jpeg;base64,${ok}`, 'image/jpeg'],
  ])('[116, 117, 118, 121, U9, U11] takes %.60s', (text, contentType) => {
    const uri = parse(text);
    const payload = text.slice(text.indexOf(',') + 1);
    expect(uri).toEqual({
      contentType,
      payloadStart: text.length - payload.length,
      decodedLength: Buffer.from(payload, 'base64').length,
    });
  });

  it('reads a view in the middle of a larger buffer', () => {
    const text = `data:image/png;base64,${ok}`;
    const buffer = Buffer.from(`{"url":"${text}"}`);
    const view = new Uint8Array(buffer.buffer, buffer.byteOffset + 8, text.length);
    expect(parseDataUri(view, optionsWith())).toMatchObject({ decodedLength: png.length });
  });

  const invalid = 'media_data_uri_invalid';
  it.each([
    ['no comma', 'data:image/png;base64', invalid],
    ['no comma in a long text', `data:image/png;base64${ok.repeat(40)}`, invalid],
    ['no marker', 'data:image/png,AAAA', invalid],
    ['percent-encoded bytes', 'data:image/png,%89PNG', invalid],
    ['no type', 'data:;base64,AAAA', invalid],
    ['nothing', 'data:', invalid],
    ['only a comma', 'data:,x', invalid],
    ['the marker as type', 'data:base64,x', invalid],
    ['the marker in the wrong place', 'data:base64;image/png,AAAA', invalid],
    ['a comma inside a parameter', `data:image/png;name="a,b";base64,${ok}`, invalid],
    ['raw base64 without scheme', ok, invalid],
    ['an empty payload', 'data:image/png;base64,', invalid],
    ['a line break', `data:image/png;base64,${ok.slice(0, 40)}\r\n\r\n${ok.slice(40)}`, invalid],
    ['a blank', `data:image/png;base64, ${ok.slice(1)}`, invalid],
    ['the URL-safe alphabet', 'data:image/png;base64,AA-_', invalid],
    ['percent escapes', 'data:image/png;base64,AA%3D', invalid],
    ['missing padding', 'data:image/png;base64,AAAAAA', invalid],
    ['padding inside', 'data:image/png;base64,AA==AAAA', invalid],
    ['three padding characters', 'data:image/png;base64,A===', invalid],
    ['padding alone', 'data:image/png;base64,====', invalid],
    ['a byte beyond ASCII', 'data:image/png;base64,AA\u00e9', invalid],
    ['text/html', 'data:text/html;base64,AAAA', 'media_type_not_allowed'],
    ['image/svg+xml', 'data:image/svg+xml;base64,AAAA', 'media_type_not_allowed'],
    ['image/bmp', 'data:image/bmp;base64,AAAA', 'media_type_not_allowed'],
    [
      'application/octet-stream',
      'data:application/octet-stream;base64,AAAA',
      'media_type_not_allowed',
    ],
    [
      'HTML inside',
      `data:image/png;base64,${Buffer.from('<!DOCTYPE html>').toString('base64')}`,
      'media_type_not_allowed',
    ],
    [
      'a claim of 60000 x 60000 pixels',
      `data:image/png;base64,${pngOf(60_000, 60_000).toString('base64')}`,
      'media_dimensions_exceeded',
    ],
  ])('[119 to 124, U10, U12, U13] refuses %s', async (_, text, code) => {
    const failure = await failureOf(() => parse(text));
    expect(failure).toMatchObject({ code, stepStatus: 400 });
    expect(failure.message).toMatch(/^parsing data URI: /);
  });

  it('[123] accepts exactly the cap and refuses one byte more', async () => {
    const uri = (bytes: number): string =>
      `data:image/png;base64,${Buffer.alloc(bytes).toString('base64')}`;
    expect(parse(uri(100), { maxDownloadBytes: 100 }).decodedLength).toBe(100);
    const failure = await failureOf(() => parse(uri(101), { maxDownloadBytes: 100 }));
    expect(failure).toMatchObject({ code: 'media_too_large', limit: 100, actual: 101 });
  });

  it('needs to know the bytes with strict, and does not look with off', async () => {
    const strict = await failureOf(() =>
      parse('data:image/png;base64,AAAA', { contentCheck: 'strict' }),
    );
    expect(strict.code).toBe('media_type_not_allowed');
    const html = `data:image/png;base64,${Buffer.from('<html>').toString('base64')}`;
    expect(parse(html, { contentCheck: 'off' }).contentType).toBe('image/png');
  });

  it('finds the size of a JPEG behind a large EXIF segment', async () => {
    const text = `data:image/jpeg;base64,${jpeg(40_000).toString('base64')}`;
    const tight = await failureOf(() =>
      parseDataUri(Buffer.from(text), optionsWith(), 'image', {
        ...defaultMediaLimits,
        maxImagePixels: 5,
      }),
    );
    expect(tight).toMatchObject({ code: 'media_dimensions_exceeded', limit: 5, actual: 6 });
  });

  it('takes audio types for modality audio', () => {
    const wav = Buffer.concat([Buffer.from('RIFF\0\0\0\0WAVE'), Buffer.alloc(6)]).toString(
      'base64',
    );
    const uri = parseDataUri(Buffer.from(`data:audio/wav;base64,${wav}`), optionsWith(), 'audio');
    expect(uri.contentType).toBe('audio/wav');
  });
});
