import { once } from 'node:events';
import { createServer, request as forward } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { describe, expect, it } from '@jest/globals';
import { type ResolveHost } from './resolve-host.ts';
import {
  failureOf,
  image,
  loopbackFetcher,
  never,
  optionsWith,
  png,
  startOrigin,
} from './testing.ts';

/** A forward proxy that sends every request to one port of loopback and keeps what it was asked for. */
async function startProxy(
  port: number,
): Promise<{ url: string; asked: string[] } & AsyncDisposable> {
  const asked: string[] = [];
  const server = createServer((request, response) => {
    asked.push(`${request.method} ${request.url}`);
    const { pathname } = new URL(request.url ?? '');
    forward({ port, host: '127.0.0.1', path: pathname }, (answer) => {
      answer.pipe(response);
    }).end();
  });
  server.on('connect', (request, socket) => {
    asked.push(`CONNECT ${request.url}`);
    const upstream = connect(port, '127.0.0.1', () => {
      socket.write('HTTP/1.1 200 OK\r\n\r\n');
      upstream.pipe(socket).pipe(upstream);
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  // A server that listens on TCP has an address object.
  const address = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${address.port}`,
    asked,
    [Symbol.asyncDispose]: async () => {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

const names: Record<string, string> = { 'public.test': '8.8.8.8', 'inner.test': '10.0.0.1' };
const resolve: ResolveHost = (name) => {
  const address = names[name];
  return address === undefined
    ? Promise.reject(Object.assign(new Error('ENOTFOUND'), { code: 'ENOTFOUND' }))
    : Promise.resolve([{ address, family: 4 }]);
};

describe('behind a proxy', () => {
  it('[92, U26] public names go through it, whose own address is exempt', async () => {
    await using origin = await startOrigin((_, response) => response.end(png));
    await using proxy = await startProxy(origin.port);
    await using fetcher = loopbackFetcher({
      resolve,
      testOnlyAllowLoopback: false,
      proxy: { httpProxy: proxy.url },
    });
    const ref = image('http://public.test/a');
    expect((await fetcher.fetch(ref, optionsWith(), never())).bytes.equals(png)).toBe(true);
    expect(proxy.asked).toEqual(['GET http://public.test/a']);
  });

  it.each([
    'http://inner.test/',
    'http://127.0.0.1/',
    'http://169.254.169.254/',
    'https://inner.test/',
  ])('[92] %s is blocked before the proxy hears of it', async (url) => {
    await using proxy = await startProxy(1);
    await using fetcher = loopbackFetcher({
      resolve,
      testOnlyAllowLoopback: false,
      proxy: { httpProxy: proxy.url, httpsProxy: proxy.url },
    });
    const failure = await failureOf(() => fetcher.fetch(image(url), optionsWith(), never()));
    expect(failure.code).toBe('media_address_blocked');
    expect(proxy.asked).toEqual([]);
  });

  it('names that resolve only there need trustRemoteDns', async () => {
    await using origin = await startOrigin((_, response) => response.end(png));
    await using proxy = await startProxy(origin.port);
    const ref = image('http://remote.test/a');
    await using strict = loopbackFetcher({ resolve, proxy: { httpProxy: proxy.url } });
    const failure = await failureOf(() => strict.fetch(ref, optionsWith(), never()));
    expect(failure.code).toBe('media_dns_failed');
    expect(proxy.asked).toEqual([]);
    const config = { httpProxy: proxy.url, trustRemoteDns: true };
    await using trusting = loopbackFetcher({ resolve, proxy: config });
    expect((await trusting.fetch(ref, optionsWith(), never())).byteLength).toBe(png.length);
  });

  it('NO_PROXY goes out directly and stays guarded', async () => {
    await using proxy = await startProxy(1);
    await using fetcher = loopbackFetcher({
      resolve: () => Promise.resolve([{ address: '127.0.0.1', family: 4 }]),
      proxy: { httpProxy: proxy.url, noProxy: 'direct.test' },
    });
    await using origin = await startOrigin((_, response) => response.end(png));
    const ref = image(`http://direct.test:${origin.port}/a`);
    expect((await fetcher.fetch(ref, optionsWith(), never())).byteLength).toBe(png.length);
    expect(proxy.asked).toEqual([]);
  });

  it('a caller that leaves while the name is resolved is let go', async () => {
    await using proxy = await startProxy(1);
    const leaving = new AbortController();
    await using fetcher = loopbackFetcher({
      resolve: () => {
        leaving.abort();
        return new Promise(() => undefined);
      },
      limits: { dnsTimeoutMs: 100 },
      proxy: { httpProxy: proxy.url },
    });
    const failure = await failureOf(() =>
      fetcher.fetch(image('http://public.test/a'), optionsWith(), leaving.signal),
    );
    expect(failure.code).toBe('media_cancelled');
  });
});
