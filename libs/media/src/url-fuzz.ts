import { once } from 'node:events';
import { createServer } from 'node:http';
import { type AddressInfo, Socket } from 'node:net';
import { networkInterfaces } from 'node:os';
import { buildConnector } from 'undici';
import { MediaError } from './media-error.ts';
import { MediaFetcher } from './media-fetcher.ts';
import { defaultMediaFetchOptions } from './options.ts';
import { type Random, randomFrom, UrlSpellings } from './url-spellings.ts';

/** What a fuzz of the address guard does. */
export interface UrlFuzzPlan {
  /** URLs to fetch. */
  readonly count: number;
  /** The same seed spells the same URLs. */
  readonly seed: number;
  /** Fetches at the same time; 16 when absent. */
  readonly concurrency?: number;
}

/** What a fuzz has seen. The caller judges the addresses, by an oracle that is not the guard. */
export interface UrlFuzzReport {
  readonly tried: number;
  /** Fetches that ended with a picture. */
  readonly fetched: number;
  /** Fetches that a redirect led to a forbidden place. */
  readonly redirectsBlocked: number;
  /** Every address that a socket was about to connect to, as Node told before its system call. */
  readonly attempted: readonly string[];
  /** Every address of ours that a connection was made to, as the origin saw it. */
  readonly reached: readonly string[];
  /** Failures that no URL may lead to, by code; empty when all is well. */
  readonly unexpected: readonly string[];
}

const png = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC',
  'base64',
);

/**
 * Fetches URLs in ever new spellings of addresses and names, with redirects and resolver answers of the same
 * kind, and reports which addresses sockets were opened to. Wants a network namespace in which every address
 * is local (`ip route add local 0.0.0.0/0 dev lo`) and port 80 may be listened on: throws an Error where
 * there is another interface, since public addresses are really connected to.
 */
export async function fuzzUrls(plan: UrlFuzzPlan): Promise<UrlFuzzReport> {
  const outside = Object.values(networkInterfaces()).flatMap((list) => list ?? []);
  if (outside.some(({ internal }) => !internal)) {
    throw new Error('the fuzz connects to addresses of others: run it in a namespace of its own');
  }
  const random = randomFrom(plan.seed);
  const spellings = new UrlSpellings(random);
  const attempted = new Set<string>();
  const reached = new Set<string>();
  await using origin = await startOrigin(random, spellings, reached);
  const fetcher = new MediaFetcher({
    // Every spelling is another origin.
    limits: { maxOrigins: plan.count * 8, dnsTimeoutMs: 1000, connectTimeoutMs: 1000 },
    resolve: () => Promise.resolve(spellings.answer()),
    testOnlyBuildConnector: (options) => watched(buildConnector(options), attempted),
  });

  const unexpected = new Set<string>();
  let [tried, fetched, redirectsBlocked] = [0, 0, 0];
  const work = async (): Promise<void> => {
    while (tried < plan.count) {
      tried += 1;
      const url = spellings.url(origin.port);
      try {
        await fetcher.fetch(
          { url, modality: 'image' },
          defaultMediaFetchOptions,
          new AbortController().signal,
        );
        fetched += 1;
      } catch (error) {
        const code = error instanceof MediaError ? error.code : String(error);
        if (code === 'media_redirect_blocked') redirectsBlocked += 1;
        if (!(error instanceof MediaError) || code === 'media_internal') unexpected.add(code);
      }
    }
  };
  try {
    await Promise.all(Array.from({ length: plan.concurrency ?? 16 }, work));
  } finally {
    await fetcher.close();
  }
  const addresses = { attempted: [...attempted], reached: [...reached] };
  return { tried, fetched, redirectsBlocked, ...addresses, unexpected: [...unexpected] };
}

/** Notes the addresses that the sockets of a connector are opened to. */
function watched(
  connect: buildConnector.connector,
  attempted: Set<string>,
): buildConnector.connector {
  return (options, callback) => {
    // Undici returns the socket before it connects, which its types leave out.
    const socket: unknown = connect(options, callback);
    if (!(socket instanceof Socket)) throw new Error('the connector returned no socket to watch');
    socket.on('connectionAttempt', (address) => attempted.add(address));
  };
}

/** Answers on every address: some requests with a redirect to another spelling, the others with a picture. */
async function startOrigin(
  random: Random,
  spellings: UrlSpellings,
  reached: Set<string>,
): Promise<{ port: number } & AsyncDisposable> {
  const server = createServer((_, response) => {
    response.setHeader('connection', 'close');
    if (random(3) > 0) response.end(png);
    else {
      // Header values are latin1 for Node; what is more goes out as the UTF-8 that is found in the wild.
      const location = Buffer.from(spellings.url(80).replaceAll(/\p{Cc}/gu, '')).toString('latin1');
      response.writeHead(302, { location }).end();
    }
  });
  server.on('connection', (socket) => reached.add(socket.localAddress ?? ''));
  server.listen(80, '::');
  await once(server, 'listening');
  // A server that listens on TCP has an address object.
  const { port } = server.address() as AddressInfo;
  return {
    port,
    [Symbol.asyncDispose]: async () => {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}
