import { type RequestListener } from 'node:http';
import { describe, expect, it } from '@jest/globals';
import { parseAllowedDomains } from './domain-rules.ts';
import {
  failureOf,
  image,
  loopbackFetcher,
  never,
  optionsWith,
  png,
  startOrigin,
} from './testing.ts';

/** Answers `/n/<k>` with a redirect to `/n/<k-1>` and `/n/0` with a picture. */
const countdown: RequestListener = (request, response) => {
  const left = Number(request.url?.slice('/n/'.length));
  if (left === 0) {
    response.end(png);
  } else {
    response.writeHead(302, { location: `/n/${left - 1}` }).end();
  }
};

/** What a redirect from `/` to `location` ends with, everything else being a picture. */
async function follow(
  location: string | string[] | undefined,
  { status = 302, options = {} } = {},
): Promise<{ run: () => Promise<Buffer>; asked: string[] } & AsyncDisposable> {
  const asked: string[] = [];
  const origin = await startOrigin((request, response) => {
    asked.push(`${request.method} ${request.headers.host?.split(':')[0]} ${request.url}`);
    if (request.url === '/') {
      if (location !== undefined) {
        response.setHeader('location', location);
      }
      response.writeHead(status).end();
    } else {
      response.end(png);
    }
  });
  const fetcher = loopbackFetcher({
    resolve: (name) =>
      Promise.resolve([{ address: name === 'inner.test' ? '10.0.0.1' : '127.0.0.1', family: 4 }]),
  });
  return {
    asked,
    run: async () => {
      const url = `http://media.test:${origin.port}/`;
      return (await fetcher.fetch(image(url), optionsWith(options), never())).bytes;
    },
    [Symbol.asyncDispose]: async () => {
      await fetcher.close();
      await origin[Symbol.asyncDispose]();
    },
  };
}

describe('redirects (C26)', () => {
  it.each([301, 302, 303, 307, 308])('[70] %i is followed with GET', async (status) => {
    await using chain = await follow('/pic', { status });
    expect((await chain.run()).equals(png)).toBe(true);
    expect(chain.asked).toEqual(['GET media.test /', 'GET media.test /pic']);
  });

  it.each([
    ['/pic?x=%2F', 'GET media.test /pic?x=%2F'],
    ['pic', 'GET media.test /pic'],
    ['?x', 'GET media.test /?x'],
    ['/a#frag', 'GET media.test /a'],
    [Buffer.from('/ä').toString('latin1'), 'GET media.test /%C3%A4'],
  ])('[65] a location of %s is resolved against the URL', async (location, expected) => {
    await using chain = await follow(location);
    await chain.run();
    expect(chain.asked[1]).toBe(expected);
  });

  it('[65] a protocol-relative location keeps the scheme', async () => {
    await using origin = await startOrigin((_, response) => response.end(png));
    await using chain = await follow(`//other.test:${origin.port}/pic`);
    expect((await chain.run()).equals(png)).toBe(true);
    expect(origin.connections()).toBe(1);
  });

  it.each([
    ['http://169.254.169.254/latest/meta-data/', 'media_address_blocked'],
    ['http://[::ffff:10.0.0.1]/', 'media_address_blocked'],
    ['http://inner.test/', 'media_address_blocked'],
    ['http://localhost/', 'media_host_not_allowed'],
    ['file:///etc/passwd', 'media_scheme_not_allowed'],
    ['data:image/png;base64,AAAA', 'media_scheme_not_allowed'],
    ['ftp://example.com/', 'media_scheme_not_allowed'],
    ['http://user:pw@other.test/', 'media_credentials_not_allowed'],
    ['http://other.test:6379/', 'media_port_not_allowed'],
    ['http://a..b/', 'media_url_invalid'],
  ])('[57, 58, 60, 61, 62] to %s is blocked by %s', async (location, causeCode) => {
    await using chain = await follow(location);
    const failure = await failureOf(chain.run);
    expect(failure).toMatchObject({
      code: 'media_redirect_blocked',
      causeCode,
      hop: 1,
      stepStatus: 400,
    });
    expect(failure.message).not.toContain('1');
    expect(chain.asked).toHaveLength(1);
  });

  it('[59] to a host outside allowed_domains is blocked', async () => {
    const allowedDomains = parseAllowedDomains(['media.test']);
    await using chain = await follow('http://other.test/', { options: { allowedDomains } });
    const failure = await failureOf(chain.run);
    expect(failure).toMatchObject({
      code: 'media_redirect_blocked',
      causeCode: 'media_host_not_allowed',
    });
  });

  it.each([
    ['missing', undefined],
    ['empty', ''],
    ['of 9000 characters', `/${'a'.repeat(9000)}`],
    ['doubled', ['/a', '/b']],
    ['with a backslash', '/\\evil.test/'],
    ['that cannot be parsed', 'http://[/'],
  ])('[66] with a location %s is invalid', async (_, location) => {
    await using chain = await follow(location);
    const failure = await failureOf(chain.run);
    expect(failure).toMatchObject({ code: 'media_redirect_invalid', stepStatus: 424 });
  });

  it.each([300, 304, 305, 306])('[69] %i is not followed', async (status) => {
    await using chain = await follow('/pic', { status });
    const failure = await failureOf(chain.run);
    expect(failure).toMatchObject({ code: 'media_origin_status', originStatus: status });
    expect(failure.stepStatus).toBe(424);
  });

  it('[63] stops after five', async () => {
    await using origin = await startOrigin(countdown);
    await using fetcher = loopbackFetcher();
    const fetch = (path: string) =>
      fetcher.fetch(image(origin.base + path), optionsWith(), never());
    expect((await fetch('/n/5')).byteLength).toBe(png.length);
    const failure = await failureOf(() => fetch('/n/6'));
    expect(failure).toMatchObject({ code: 'media_too_many_redirects', limit: 5, stepStatus: 400 });
  });

  it.each(['/self', '/a'])('[64] ends a loop at %s at its first repetition', async (path) => {
    let asked = 0;
    await using origin = await startOrigin((request, response) => {
      asked += 1;
      const next = { '/self': '/self', '/a': '/b', '/b': '/a' }[request.url ?? ''] ?? '';
      response.writeHead(302, { location: next }).end();
    });
    await using fetcher = loopbackFetcher();
    const failure = await failureOf(() =>
      fetcher.fetch(image(origin.base + path), optionsWith(), never()),
    );
    expect(failure.code).toBe('media_too_many_redirects');
    expect(asked).toBe(path === '/self' ? 1 : 2);
  });

  it('[68] with an endless body is followed at once, and the body let go', async () => {
    await using endless = await startOrigin((_, response) => {
      response.writeHead(302, { location: `${origin.base}/pic` });
      const send = (): void => {
        while (!response.destroyed && response.write(Buffer.alloc(65_536)));
      };
      response.on('drain', send);
      send();
    });
    await using origin = await startOrigin((_, response) => response.end(png));
    await using fetcher = loopbackFetcher();
    const result = await fetcher.fetch(image(`${endless.base}/`), optionsWith(), never());
    expect(result.byteLength).toBe(png.length);
    await endless.idle();
  });
});
