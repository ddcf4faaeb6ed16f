import { beforeAll, describe, expect, it } from '@jest/globals';
import { hasNamespace } from './namespace.ts';
import { type RemoteMediaOutput } from './remote-media-rig.ts';
import { runRig } from './run-rig.ts';

const origin = 'http://93.184.216.34';
const photo = `${origin}/photo.jpg`;

/** Requests that fail, with what their client is told in both modes. */
const rows: readonly { urls: readonly string[]; status: number; code: string; part?: number }[] = [
  { urls: ['http://a..b/'], status: 400, code: 'media_url_invalid' },
  { urls: [`${origin}/${'x'.repeat(9_000)}`], status: 400, code: 'media_url_too_long' },
  { urls: ['file:///etc/passwd'], status: 400, code: 'media_scheme_not_allowed' },
  { urls: ['http://u:p@93.184.216.34/'], status: 400, code: 'media_credentials_not_allowed' },
  { urls: [`${origin}:6379/`], status: 400, code: 'media_port_not_allowed' },
  { urls: ['http://localhost/'], status: 400, code: 'media_host_not_allowed' },
  { urls: ['http://8.8.8.8/'], status: 400, code: 'media_host_not_allowed' },
  { urls: ['http://169.254.169.254/latest'], status: 400, code: 'media_address_blocked' },
  { urls: [`${origin}/inside`], status: 400, code: 'media_redirect_blocked' },
  { urls: [`${origin}/loop`], status: 400, code: 'media_too_many_redirects' },
  { urls: [`${origin}/nowhere`], status: 424, code: 'media_redirect_invalid' },
  { urls: ['data:image/png,x'], status: 400, code: 'media_data_uri_invalid' },
  { urls: [`${origin}/html`], status: 400, code: 'media_type_not_allowed' },
  { urls: [`${origin}/empty`], status: 400, code: 'media_content_invalid' },
  { urls: [`${origin}/big`], status: 400, code: 'media_too_large' },
  { urls: [`${origin}/status/404`], status: 400, code: 'media_origin_status' },
  { urls: [`${origin}/status/429`], status: 424, code: 'media_origin_status' },
  { urls: [`${origin}/status/503`], status: 424, code: 'media_origin_status' },
  { urls: ['http://none.example.com/'], status: 424, code: 'media_dns_failed' },
  { urls: [`${origin}:81/`], status: 424, code: 'media_connect_failed' },
  { urls: ['https://93.184.216.34:80/'], status: 424, code: 'media_tls_failed' },
  { urls: [`${origin}/cut`], status: 424, code: 'media_truncated' },
  { urls: [`${origin}/mute`], status: 424, code: 'media_timeout' },
  { urls: [photo, `${origin}/status/404`], status: 400, code: 'media_origin_status', part: 2 },
  { urls: [photo, photo, photo, photo, photo], status: 400, code: 'media_too_many_items' },
  {
    urls: [photo, 'http://localhost/', 'data:,'],
    ...{ status: 400, code: 'media_host_not_allowed', part: 2 },
  },
  {
    urls: [photo, 'data:,', 'http://localhost/'],
    ...{ status: 400, code: 'media_data_uri_invalid', part: 2 },
  },
];

const inNamespace = hasNamespace ? describe : describe.skip;

inNamespace('a coordinator with a media fetcher, all of them processes', () => {
  let output: RemoteMediaOutput;
  beforeAll(async () => {
    const failing = rows.map(({ urls }) => urls);
    output = (await runRig('remote-media-rig.ts', { failing })) as RemoteMediaOutput;
  }, 120_000);

  it('serves a photo by URL, which the media fetcher has downloaded', () => {
    expect(output.served).toMatchObject({ status: 200, seen: expect.stringMatching(/^640x480/) });
    expect(output.served.seen).toBe(output.inline.seen);
    expect(output.fetcherLines.map((line) => JSON.parse(line) as object)).toMatchObject([
      { msg: 'fetched', host: '93.184.216.34', content_type: 'image/jpeg' },
    ]);
    expect(output.fetcherLines.join()).not.toContain('SECRET');
  });

  it('keeps the order of what is inline and by URL, in both modes (row 126)', () => {
    const [local, remote] = output.mixed;
    expect(local).toMatchObject({ status: 200 });
    const [first, second, third] = local?.seen?.split('; ') ?? [];
    expect(first).toMatch(/^640x480/);
    expect(second).not.toBe(first);
    expect(third).toBe(first);
    expect(remote).toEqual(local);
  });

  it.each(rows.map((row, i) => ({ ...row, i, url: row.urls.at(-1)?.slice(0, 60) })))(
    '$code is $status for $url, in both modes with the same words',
    ({ i, status, code, part }) => {
      const [local, remote] = [output.local[i], output.remote[i]];
      expect(local).toMatchObject({ status, error: { code } });
      expect(remote).toEqual(local);
      expect(local?.error?.message).not.toContain('SECRET');
      if (part) expect(local?.error?.param).toBe(`messages[0].content[${part}]`);
    },
  );

  it('counts in both modes what was fetched, and why not', () => {
    const [local, remote] = output.counts.map((text) =>
      Object.fromEntries(
        [...text.matchAll(/^media_fetch_total\{modality="image",code="(\w+)"\} (\d+)$/gm)].map(
          ([, code = '', count]) => [code, Number(count)],
        ),
      ),
    );
    expect(remote?.['ok']).toBeGreaterThan(0);
    expect({ ...remote, ok: 0, media_cancelled: 0 }).toEqual({
      ...{ ...local, ok: 0, media_cancelled: 0 },
    });
    for (const text of output.counts) {
      expect(text).toMatch(/media_download_duration_seconds_count\{result="success"\} [1-9]/);
      expect(text).toMatch(/media_bytes_count\{modality="image",kind="source"\} [1-9]/);
    }
  });

  it('ends the download when its client leaves', () => {
    expect(output.openAfterAbort).toBe(0);
  });

  it('answers 502 when the media fetcher is gone, with fallback: fail', () => {
    expect(output.goneFail).toMatchObject({
      ...{ status: 502, error: { code: 'UPSTREAM_UNREACHABLE', param: null } },
    });
  });

  it('downloads by itself when the media fetcher is gone, with fallback: local', () => {
    expect(output.goneLocal).toMatchObject({ status: 200, seen: output.inline.seen });
  });

  it('tells in /readyz?verbose whether the media fetcher is there', () => {
    expect(output.readiness).toMatchObject([
      { status: 'ok', dependencies: { 'media-fetcher': 'up' } },
      { status: 'ok', dependencies: { 'media-fetcher': 'down' } },
    ]);
  });
});
