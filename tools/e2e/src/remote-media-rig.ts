import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { json } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { demoPhoto, startStack } from '@llm-d/local-stack';

/** Input of the rig: requests that fail, by what they hold. */
export interface RemoteMediaInput {
  /** Lists of URLs; each list is one request. */
  readonly failing: readonly (readonly string[])[];
}

/** What a client got. */
export interface ClientAnswer {
  readonly status: number;
  /** What the workers say that they saw: sizes and hashes of images. */
  readonly seen: string | undefined;
  readonly retryAfter: string | null;
  readonly error:
    { readonly code: string; readonly message: string; readonly param: string | null } | undefined;
}

/** Output of the rig. */
export interface RemoteMediaOutput {
  /** The answer to a photo by URL, where a media fetcher downloads it. */
  readonly served: ClientAnswer;
  /** The answer to the same photo inline. */
  readonly inline: ClientAnswer;
  /** Lines of the media fetcher about the photo. */
  readonly fetcherLines: readonly string[];
  /** What both coordinators answer to the photo by URL, a pixel inline, and the photo again. */
  readonly mixed: readonly ClientAnswer[];
  /** For each failing request what a coordinator answers that downloads itself, and one with a media fetcher. */
  readonly local: readonly ClientAnswer[];
  readonly remote: readonly ClientAnswer[];
  /** What the metrics of the two coordinators say about those. */
  readonly counts: readonly string[];
  /** Connections that the origin still had some time after a client left in the middle of a download. */
  readonly openAfterAbort: number;
  /** When the media fetcher is gone. */
  readonly goneFail: ClientAnswer;
  readonly goneLocal: ClientAnswer;
  /** Readiness of the coordinators' other ends, before and after. */
  readonly readiness: readonly unknown[];
}

const address = '93.184.216.34';
const photo = await readFile(demoPhoto);
const held = new Set<Socket>();
let isHeld: () => void = () => {};
const holding = new Promise<void>((resolve) => (isHeld = resolve));

const server = createServer((request, response) => {
  const [path = ''] = (request.url ?? '').split('?', 1);
  const status = /^\/status\/(\d+)$/.exec(path)?.[1];
  if (status !== undefined) response.writeHead(Number(status)).end('SECRET');
  else if (path === '/html') response.end('<!doctype html>');
  else if (path === '/empty') response.end();
  else if (path === '/big') response.end(Buffer.alloc(1_048_577, 'x'));
  else if (path === '/cut') {
    response.writeHead(200, { 'content-length': 100 });
    response.write('12345', () => response.destroy());
  } else if (path === '/mute') response.flushHeaders();
  else if (path === '/loop') response.writeHead(302, { location: '/loop' }).end();
  else if (path === '/inside') response.writeHead(302, { location: 'http://10.0.0.1/' }).end();
  else if (path === '/nowhere') response.writeHead(302).end();
  else if (path === '/held') {
    held.add(request.socket);
    request.socket.once('close', () => held.delete(request.socket));
    response.write(photo.subarray(0, 1000));
    isHeld();
  } else response.end(photo);
});
server.listen(80, '::');
await once(server, 'listening');

const { failing } = (await json(process.stdin)) as RemoteMediaInput;
const directory = mkdtempSync(join(tmpdir(), 'remote-media-'));
const limits = {
  ...{ download_timeout: '1s', max_download_size: 1, max_total_download_size: 2, max_retries: 0 },
  ...{ max_redirects: 2, max_multimodal_entries: 4, allowed_domains: [address, '.example.com'] },
};
const stack = await startStack({
  directory,
  workers: { encode: 1, prefill: 1, decode: 1 },
  mediaFetcher: {},
  coordinator: { media: limits },
});
const remoteUrl = stack.coordinatorUrl;
const here = { ...limits, mode: 'local' };
// A namespace of its own has every port free.
const localMetricsPort = 9_191;
const localUrl = await stack.startCoordinator('local', {
  media: here,
  server: { metrics_port: localMetricsPort },
});
const fallbackUrl = await stack.startCoordinator('fallback', {
  media: { ...limits, fallback: 'local' },
});

async function ask(
  coordinator: string,
  urls: readonly string[],
  id = '',
  signal: AbortSignal | null = null,
): Promise<ClientAnswer> {
  const parts = urls.map((url) => ({ type: 'image_url', image_url: { url } }));
  const response = await fetch(`${coordinator}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...(id !== '' && { 'x-request-id': id }) },
    body: JSON.stringify({
      ...{ model: 'sim/model', max_tokens: 200 },
      messages: [{ role: 'user', content: [{ type: 'text', text: 'Look' }, ...parts] }],
    }),
    signal,
  });
  const { error, choices } = (await response.json()) as Pick<ClientAnswer, 'error'> & {
    readonly choices?: readonly { readonly message: { readonly content: string } }[];
  };
  return {
    status: response.status,
    seen: choices?.[0]?.message.content.match(/\d+x\d+, hash \w+/g)?.join('; '),
    retryAfter: response.headers.get('retry-after'),
    // The id differs with each request.
    error: error && {
      ...{ code: error.code, param: error.param },
      message: error.message.replace(/ \(request_id: .*\)$/, ''),
    },
  };
}

async function readiness(): Promise<unknown> {
  return (await fetch(`${remoteUrl}/readyz?verbose`)).json();
}

async function output(): Promise<RemoteMediaOutput> {
  const photoUrl = `http://${address}/photo.jpg?sig=SECRET`;
  const served = await ask(remoteUrl, [photoUrl], 'served-1');
  const inline = await ask(remoteUrl, [`data:image/jpeg;base64,${photo.toString('base64')}`]);
  const pixel =
    'data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC';
  const three = [photoUrl, pixel, `http://${address}/again.jpg`];
  const mixed = [await ask(localUrl, three), await ask(remoteUrl, three)];
  const local: ClientAnswer[] = [];
  const remote: ClientAnswer[] = [];
  for (const urls of failing) {
    local.push(await ask(localUrl, urls));
    remote.push(await ask(remoteUrl, urls));
  }
  const counts = await Promise.all(
    [`http://127.0.0.1:${localMetricsPort}/metrics`, stack.coordinatorMetricsUrl].map(async (url) =>
      (await fetch(url)).text(),
    ),
  );
  const leaving = new AbortController();
  const left = ask(remoteUrl, [`http://${address}/held`], '', leaving.signal).catch(() => 'left');
  await holding;
  leaving.abort();
  await left;
  // The deadline of the download would be a second.
  for (let waited = 0; held.size > 0 && waited < 600; waited += 10) await sleep(10);
  const openAfterAbort = held.size;
  const ready = [await readiness()];
  await stack.children.stop('media-fetcher');
  const log = await readFile(stack.children.logFile('media-fetcher'), 'utf8');
  const goneFail = await ask(remoteUrl, [photoUrl]);
  const goneLocal = await ask(fallbackUrl, [photoUrl]);
  ready.push(await readiness());
  const fetcherLines = log.split('\n').filter((line) => line.includes('served-1'));
  return {
    ...{ served, inline, fetcherLines, local, remote, openAfterAbort, goneFail, goneLocal },
    ...{ counts, mixed, readiness: ready },
  };
}

try {
  process.stdout.write(JSON.stringify(await output()));
} finally {
  await stack.stop();
  server.close();
  server.closeAllConnections();
  rmSync(directory, { recursive: true });
}
