import { describe, expect, it } from '@jest/globals';
import { type EndedItem } from './ended-item.ts';
import { MediaError } from './media-error.ts';
import { MediaLog } from './media-log.ts';
import { MediaResult } from './media-result.ts';
import { type MediaRef } from './options.ts';
import {
  failureOf,
  image,
  loopbackFetcher,
  never,
  optionsWith,
  png,
  startOrigin,
} from './testing.ts';

const url = 'https://media.example.com/dir/cat.png?X-Amz-Signature=SECRET#SECRET';

/** The lines of an item. */
function linesOf(item: Partial<EndedItem>, log = new MediaLog()): object[] {
  const lines: object[] = [];
  const write = (level: string) => (fields: object, message: string) =>
    lines.push({ level, message, ...fields });
  const levels = { info: write('info'), warn: write('warn'), error: write('error') };
  const ref = image(url);
  const none = { result: undefined, error: undefined };
  log.itemEnded(levels, { ref, indices: [2], durationMs: 12.4, ...none, ...item }, { id: 'r' });
  return JSON.parse(JSON.stringify(lines)) as object[];
}

describe('the line of an item (11)', () => {
  const about = { id: 'r', index: 2, modality: 'image', host: 'media.example.com', ms: 12 };

  it('tells what came, and nothing secret of its URL', () => {
    const origin = { host: 'other', status: 200, redirects: 1, etag: 'SECRET', lastModified: '' };
    const cache = { status: 'miss', tier: 'none', ageMs: 0, ttlMs: 0 } as const;
    const result = new MediaResult(png, 'image/png', { origin, cache });
    const came = { bytes: png.length, content_type: 'image/png', cache: 'miss' };
    const line = { level: 'info', message: 'fetched', name: 'cat.png', ...about, ...came };
    expect(linesOf({ result })).toEqual([{ ...line, status: 200, hops: 1 }]);
  });

  it('is one for each position of equal references', () => {
    const result = new MediaResult(png, 'image/png');
    expect(linesOf({ result, indices: [0, 3] })).toMatchObject([{ index: 0 }, { index: 3 }]);
  });

  it('tells why nothing came', () => {
    const details = { originStatus: 404, logDetail: 'it answered 404' };
    const error = new MediaError('media_origin_status', 'no', details);
    const why = { code: 'media_origin_status', status: 404, detail: 'it answered 404' };
    const line = { level: 'info', message: 'not fetched', name: 'cat.png', ...about, ...why };
    expect(linesOf({ error })).toEqual([line]);
  });

  it('shows type and length of inline media, and what a text that is no URL is', () => {
    const error = new MediaError('media_data_uri_invalid', 'no');
    const [inline] = linesOf({ error, ref: image('data:image/png;base64,U0VDUkVU') });
    expect(inline).toMatchObject({ name: 'data:image/png (30 characters)' });
    const [text] = linesOf({ error, ref: image('//SECRET') });
    expect(text).toMatchObject({ name: 'unparsable URL (8 characters)' });
    expect(JSON.stringify([inline, text])).not.toMatch(/SECRET|U0VD|host/);
  });

  it('is an error with its cause for a fault of ours', () => {
    const error = new MediaError('media_internal', 'no', { cause: { why: 'a bug' } });
    expect(linesOf({ error })).toMatchObject([{ level: 'error', err: { why: 'a bug' } }]);
  });

  it('is a warning with address and rule for what the guard refused, ten times a second', async () => {
    const addresses = [{ address: '169.254.169.254', family: 4 }];
    await using fetcher = loopbackFetcher({ resolve: () => Promise.resolve(addresses) });
    const ended: EndedItem[] = [];
    const refs = [image('http://media.example.com/latest/meta-data?SECRET')];
    await failureOf(() =>
      fetcher.fetchMany(refs, optionsWith(), never(), (item) => ended.push(item)),
    );
    expect(ended).toHaveLength(1);
    const log = new MediaLog();
    const lines = Array.from({ length: 30 }, () => linesOf({ ...ended[0] }, log)).flat();
    expect(lines[0]).toMatchObject({
      ...{ level: 'warn', code: 'media_address_blocked', name: 'meta-data' },
      detail: expect.stringMatching(/169\.254\.169\.254.*link-local/),
    });
    const warnings = lines.filter((line) => 'level' in line && line.level === 'warn').length;
    // A second may end among them.
    expect([10, 20]).toContain(warnings);
    expect(JSON.stringify(lines)).not.toContain('SECRET');
  });
});

describe('fetchMany', () => {
  it('tells of every item whose work began: what came, what failed and what that ended', async () => {
    const firstEnded = Promise.withResolvers<void>();
    await using origin = await startOrigin(({ url: path }, response) => {
      if (path === '/good') response.end(png);
      else if (path === '/bad') void firstEnded.promise.then(() => response.writeHead(404).end());
    });
    await using fetcher = loopbackFetcher();
    const endsOf = async (refs: readonly MediaRef[]): Promise<string[]> => {
      const ends: string[] = [];
      const onItem = ({ indices, error }: EndedItem): void => {
        ends.push(`${indices.join()} ${error?.code ?? 'ok'}`);
        firstEnded.resolve();
      };
      await failureOf(() => fetcher.fetchMany(refs, optionsWith(), never(), onItem));
      return ends.toSorted();
    };
    const refs = ['good', 'bad', 'held', 'good'].map((name) => image(`${origin.base}/${name}`));
    expect(await endsOf(refs)).toEqual(['0,3 ok', '1 media_origin_status', '2 media_cancelled']);
    const refused = await endsOf([...refs, image('ftp://x/'), image('data:,')]);
    expect(refused).toEqual(['4 media_scheme_not_allowed']);
  });
});
