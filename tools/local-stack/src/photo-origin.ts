import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { type AddressInfo } from 'node:net';
import { networkInterfaces } from 'node:os';
import { basename } from 'node:path';

/** A web server with one picture. */
export interface PhotoOrigin {
  readonly url: string;
  /** Address that a media fetcher has to allow. */
  readonly address: string;
  close(): void;
}

/**
 * Serves a picture on an address of this machine that is not loopback, which no media fetcher may ask: on this address
 * others in the network can see the picture too. @throws TypeError when there is no such address.
 */
export async function startPhotoOrigin(file: string): Promise<PhotoOrigin> {
  const bytes = await readFile(file);
  const address = Object.values(networkInterfaces())
    .flatMap((list) => list ?? [])
    .find(({ family, internal }) => family === 'IPv4' && !internal)?.address;
  if (address === undefined) {
    throw new TypeError('--by-url needs an IPv4 address beside that of the loopback');
  }
  const path = `/${encodeURIComponent(basename(file))}`;
  const server = createServer((request, response) => {
    if (request.url === path) response.setHeader('cache-control', 'max-age=60').end(bytes);
    else response.writeHead(404).end();
  });
  server.listen(0, address);
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://${address}:${port}${path}`,
    address,
    close: () => {
      server.close();
      server.closeAllConnections();
    },
  };
}
