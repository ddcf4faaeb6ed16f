import { type IncomingMessage } from 'node:http';
import { readFileSync } from 'node:fs';
import { connect as connectSocket, type Socket } from 'node:net';
import { describe, expect, it } from '@jest/globals';
import { createAddressGuard } from './address-guard.ts';
import { guardConnector, pinnedLookup } from './guarded-dispatcher.ts';
import { checkedResolver, type ResolveHost } from './resolve-host.ts';
import {
  failureOf,
  image,
  loopbackFetcher,
  never,
  optionsWith,
  png,
  startOrigin,
  startTlsOrigin,
} from './testing.ts';

const loopback = { address: '127.0.0.1', family: 4 };
const systemError = (code: string): Error => Object.assign(new Error(code), { code });

describe('a name (C27, C32)', () => {
  it.each([
    ['10.0.0.1', 4],
    ['169.254.169.254', 4],
    ['fe80::1', 6],
    ['::ffff:10.0.0.1', 6],
    ['64:ff9b::7f00:1', 6],
  ])('[43, U34] that resolves to %s is blocked without a connection', async (address, family) => {
    await using origin = await startOrigin((_, response) => response.end(png));
    await using fetcher = loopbackFetcher({
      resolve: () => Promise.resolve([loopback, { address, family }]),
    });
    const failure = await failureOf(() =>
      fetcher.fetch(image(`http://media.test:${origin.port}/`), optionsWith(), never()),
    );
    expect(failure).toMatchObject({ code: 'media_address_blocked', stepStatus: 400 });
    expect(failure.message).not.toContain(address);
    expect(failure.logDetail).toContain(address);
    expect(origin.connections()).toBe(0);
  });

  it('[45] is resolved once per connection, and a second answer cannot lead elsewhere', async () => {
    let answers = 0;
    await using origin = await startOrigin((_, response) => {
      response.setHeader('connection', 'close');
      response.end(png);
    });
    await using fetcher = loopbackFetcher({
      resolve: () => {
        answers += 1;
        return Promise.resolve([answers === 1 ? loopback : { address: '10.0.0.1', family: 4 }]);
      },
    });
    const ref = image(`http://media.test:${origin.port}/`);
    expect((await fetcher.fetch(ref, optionsWith(), never())).byteLength).toBe(png.length);
    const failure = await failureOf(() => fetcher.fetch(ref, optionsWith(), never()));
    expect(failure.code).toBe('media_address_blocked');
    expect([answers, origin.connections()]).toEqual([2, 1]);
  });

  it.each<[string, ResolveHost, object]>([
    ['has no address', () => Promise.resolve([]), { code: 'media_dns_failed', retryable: true }],
    [
      'does not exist',
      () => Promise.reject(systemError('ENOTFOUND')),
      { code: 'media_dns_failed', retryable: false },
    ],
    [
      'cannot be asked for',
      () => Promise.reject(systemError('EAI_AGAIN')),
      { code: 'media_dns_failed', retryable: true },
    ],
    ['gets no answer', () => new Promise(() => undefined), { code: 'media_timeout' }],
  ])('[47] that %s fails', async (_, resolve, expected) => {
    await using fetcher = loopbackFetcher({ resolve, limits: { dnsTimeoutMs: 50 } });
    const failure = await failureOf(() =>
      fetcher.fetch(image('http://media.test/'), optionsWith(), never()),
    );
    expect(failure).toMatchObject({ stepStatus: 424, ...expected });
  });

  it('is tried at every address it has', async () => {
    await using origin = await startOrigin((_, response) => response.end(png));
    await using fetcher = loopbackFetcher({
      resolve: () => Promise.resolve([{ address: '::1', family: 6 }, loopback]),
    });
    const ref = image(`http://media.test:${origin.port}/`);
    expect((await fetcher.fetch(ref, optionsWith(), never())).byteLength).toBe(png.length);
  });
});

describe('the pinned lookup', () => {
  const resolve = checkedResolver(
    () => Promise.resolve([loopback]),
    () => undefined,
    1000,
  );

  it('answers with one address or with all', async () => {
    const ask = (all: boolean): Promise<unknown[]> =>
      new Promise((resolveWith) => {
        pinnedLookup(resolve)('media.test', { all }, (...answer) => {
          resolveWith(answer);
        });
      });
    expect(await ask(true)).toEqual([null, [loopback]]);
    expect(await ask(false)).toEqual([null, '127.0.0.1', 4]);
  });
});

describe('the guarded connector', () => {
  it('[46] destroys a socket that reached another address than it should', async () => {
    await using origin = await startOrigin((_, response) => response.end(png));
    const sockets: Socket[] = [];
    const connect = guardConnector(createAddressGuard(), (_, callback) => {
      const socket = connectSocket(origin.port, '127.0.0.1', () => {
        callback(null, socket);
      });
      sockets.push(socket);
    });
    const failure = await failureOf(
      () =>
        new Promise((resolve, reject) => {
          const target = { hostname: 'media.test', protocol: 'http:', port: '80' };
          connect(target, (error, socket) => {
            if (error === null) {
              resolve(socket);
            } else {
              reject(error);
            }
          });
        }),
    );
    expect(failure.code).toBe('media_address_blocked');
    expect(failure.logDetail).toContain('127.0.0.1');
    expect(sockets.map((socket) => socket.destroyed)).toEqual([true]);
  });

  it.each(['127.0.0.1', '[::1]', '10.0.0.1'])(
    'does not connect to the literal %s',
    async (hostname) => {
      const connect = guardConnector(createAddressGuard(), () => {
        throw new Error('connected');
      });
      const failure = await failureOf(
        () =>
          new Promise((_, reject) => {
            connect({ hostname, protocol: 'http:', port: '80' }, (...[error]) => {
              reject(error ?? new Error('no error'));
            });
          }),
      );
      expect(failure.code).toBe('media_address_blocked');
    },
  );
});

describe('TLS', () => {
  const read = (name: string): Buffer => readFileSync(`${import.meta.dirname}/testdata/${name}`);
  const cert = read('media.test.cert.pem');
  const identity = { key: read('media.test.key.pem'), cert };
  const resolve: ResolveHost = () => Promise.resolve([loopback]);

  it('[48] checks the certificate against the name, not the pinned address', async () => {
    await using origin = await startTlsOrigin(identity, (_, response) => response.end(png));
    await using fetcher = loopbackFetcher({ resolve, extraCa: cert.toString() });
    const fetch = (host: string) =>
      fetcher.fetch(image(`https://${host}:${origin.port}/`), optionsWith(), never());
    expect((await fetch('media.test')).byteLength).toBe(png.length);
    for (const host of ['other.test', '127.0.0.1']) {
      const failure = await failureOf(() => fetch(host));
      expect(failure).toMatchObject({
        code: 'media_tls_failed',
        stepStatus: 424,
        retryable: false,
      });
    }
  });

  it('refuses a certificate that nobody vouches for, and a peer that speaks no TLS', async () => {
    await using origin = await startTlsOrigin(identity, (_, response) => response.end(png));
    await using plain = await startOrigin((_, response) => response.end(png));
    await using fetcher = loopbackFetcher({ resolve });
    for (const { port } of [origin, plain]) {
      const failure = await failureOf(() =>
        fetcher.fetch(image(`https://media.test:${port}/`), optionsWith(), never()),
      );
      expect(failure.code).toBe('media_tls_failed');
    }
  });

  it('[71] shows configured headers to their own host alone, over https alone', async () => {
    const seen: [string | undefined, string | undefined][] = [];
    const note = (request: IncomingMessage): void => {
      seen.push([request.headers.host?.split(':')[0], request.headers.authorization]);
    };
    await using plain = await startOrigin((request, response) => {
      note(request);
      response.end(png);
    });
    await using origin = await startTlsOrigin(identity, (request, response) => {
      note(request);
      const target = request.url === '/self' ? '/end' : `http://media.test:${plain.port}/`;
      if (request.url === '/end') response.end(png);
      else response.writeHead(302, { location: target }).end();
    });
    const originHeaders = [{ domain: 'media.test', headers: { authorization: 'Bearer SECRET' } }];
    const config = { resolve, extraCa: cert.toString(), originHeaders, allowHttpsDowngrade: true };
    await using fetcher = loopbackFetcher(config);
    const fetch = (path: string) =>
      fetcher.fetch(image(`https://media.test:${origin.port}${path}`), optionsWith(), never());
    await fetch('/self');
    await fetch('/away');
    expect(seen).toEqual([
      ['media.test', 'Bearer SECRET'],
      ['media.test', 'Bearer SECRET'],
      ['media.test', 'Bearer SECRET'],
      ['media.test', undefined],
    ]);
    await fetcher.fetch(image(`${plain.base}/`), optionsWith(), never());
    expect(seen.at(-1)).toEqual(['127.0.0.1', undefined]);
  });

  it('[67] is not left by a redirect, unless allowed', async () => {
    await using plain = await startOrigin((_, response) => response.end(png));
    await using origin = await startTlsOrigin(identity, (_, response) => {
      response.writeHead(302, { location: `${plain.base}/` }).end();
    });
    const ref = image(`https://media.test:${origin.port}/`);
    const config = { resolve, extraCa: cert.toString() };
    await using strict = loopbackFetcher(config);
    const failure = await failureOf(() => strict.fetch(ref, optionsWith(), never()));
    expect(failure).toMatchObject({
      code: 'media_redirect_blocked',
      causeCode: 'media_scheme_not_allowed',
    });
    await using lenient = loopbackFetcher({ ...config, allowHttpsDowngrade: true });
    expect((await lenient.fetch(ref, optionsWith(), never())).byteLength).toBe(png.length);
  });
});
