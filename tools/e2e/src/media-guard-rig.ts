import { once } from 'node:events';
import { createServer } from 'node:http';
import { connect, isIP } from 'node:net';
import { json } from 'node:stream/consumers';
import {
  defaultMediaFetchOptions,
  MediaError,
  MediaFetcher,
  type MediaFetcherConfig,
  parseAllowedDomains,
} from '@llm-d/media';

/** One URL to fetch where every address is an origin. */
export interface GuardCase {
  readonly url: string;
  readonly config?: MediaFetcherConfig;
  readonly allowPrivateNetworks?: boolean;
  readonly allowedDomains?: readonly string[];
  /** What the resolver answers, by name, one answer after the other; the system resolves what is absent. */
  readonly names?: Readonly<Record<string, readonly (readonly string[])[]>>;
  /** Fetches one after the other; 1 when absent. */
  readonly times?: number;
}

/** How it ended. */
export interface GuardOutcome {
  /** For each fetch `ok` or the code; for a refused redirect the code of its cause too. */
  readonly ends: readonly string[];
  /** Addresses that connections came to, in their order. */
  readonly reached: readonly string[];
}

/** Input of the rig: cases, and addresses to connect to without any guard. */
export interface GuardInput {
  readonly cases: readonly GuardCase[];
  readonly unguarded: readonly string[];
}

/** Output of the rig. */
export interface GuardOutput {
  readonly outcomes: readonly GuardOutcome[];
  /** Addresses that unguarded connections came to. */
  readonly reachable: readonly string[];
}

const png = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC',
  'base64',
);

let reached: string[] = [];
// `/to/<URL>` redirects there, everything else is a picture; no connection serves twice.
const server = createServer((request, response) => {
  response.setHeader('connection', 'close');
  const target = /^\/to\/(.*)$/.exec(request.url ?? '')?.[1];
  if (target === undefined) response.end(png);
  else response.writeHead(302, { location: decodeURIComponent(target) }).end();
});
server.on('connection', ({ localAddress = '' }) => {
  reached.push(localAddress.replace(/^::ffff:(?=\d+\.)/, ''));
});
server.listen(80, '::');
await once(server, 'listening');

async function run(one: GuardCase): Promise<GuardOutcome> {
  reached = [];
  const answers = new Map(Object.entries(one.names ?? {}).map(([name, list]) => [name, [...list]]));
  const fetcher = new MediaFetcher({
    ...one.config,
    ...(one.names && {
      resolve: (name) => {
        const answer = answers.get(name)?.shift() ?? [];
        return Promise.resolve(answer.map((address) => ({ address, family: isIP(address) })));
      },
    }),
  });
  const options = {
    ...defaultMediaFetchOptions,
    allowPrivateNetworks: one.allowPrivateNetworks ?? false,
    allowedDomains: parseAllowedDomains(one.allowedDomains ?? []),
  };
  const ends: string[] = [];
  for (let i = 0; i < (one.times ?? 1); i += 1) {
    try {
      const signal = new AbortController().signal;
      await fetcher.fetch({ url: one.url, modality: 'image' }, options, signal);
      ends.push('ok');
    } catch (error) {
      if (!(error instanceof MediaError)) throw error;
      ends.push(error.causeCode ? `${error.code} ${error.causeCode}` : error.code);
    }
  }
  await fetcher.close();
  return { ends, reached };
}

/** What the same machine lets through when nobody guards. */
async function reachableOf(addresses: readonly string[]): Promise<string[]> {
  reached = [];
  for (const host of addresses) {
    const socket = connect(80, host);
    await once(socket, 'connect');
    // The answer proves that the server has noted the connection.
    socket.end('GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n').resume();
    await once(socket, 'close');
  }
  return reached;
}

const { cases, unguarded } = (await json(process.stdin)) as GuardInput;
const outcomes: GuardOutcome[] = [];
for (const one of cases) outcomes.push(await run(one));
const output: GuardOutput = { outcomes, reachable: await reachableOf(unguarded) };
server.close();
process.stdout.write(JSON.stringify(output));
