import { createServer as createPlainServer, type RequestListener, type Server } from 'node:http';
import { createServer as createTlsServer, type Server as TlsServer } from 'node:https';
import { type AddressInfo } from 'node:net';
import { type ListenAddress } from './listen-address.ts';
import { type ServerTls } from './server-tls.ts';

/** Scrapes that are being answered may go on for this long after a stop. */
const drainMs = 5_000;

/** How metrics are served. */
export interface MetricsListenerOptions extends ListenAddress {
  /** Everything as text, in the format that the `accept` header asks for. */
  readonly text: (accept: string | undefined) => Promise<{ contentType: string; body: string }>;
  /** With it the listener speaks TLS and nothing else. */
  readonly tls?: ServerTls | undefined;
}

/** Metrics that can be scraped. */
export interface MetricsListener {
  readonly port: number;
  /** Lets open scrapes finish, for up to five seconds; may be called once. */
  stop(): Promise<void>;
}

/** Serves `GET /metrics` on a listener of its own. Rejects when the address cannot be bound or the TLS files do not fit. */
export async function startMetricsListener(
  options: MetricsListenerOptions,
): Promise<MetricsListener> {
  const { text, tls, host, port } = options;
  const listener: RequestListener = (request, response) => {
    if (request.url?.split('?', 1)[0] !== '/metrics') {
      response.writeHead(404).end();
      return;
    }
    if (request.method !== 'GET' && request.method !== 'HEAD') {
      response.writeHead(405, { allow: 'GET' }).end();
      return;
    }
    text(request.headers.accept).then(
      ({ contentType, body }) => {
        response.writeHead(200, { 'content-type': contentType }).end(body);
      },
      () => {
        response.writeHead(500).end();
      },
    );
  };
  const server: Server = tls ? createTlsServer(tls.options, listener) : createPlainServer(listener);
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen({ host, port }, () => {
      server.off('error', reject);
      resolve();
    });
  });
  if (tls) server.once('close', tls.follow(server as TlsServer));
  return { port: (server.address() as AddressInfo).port, stop: () => drain(server) };
}

async function drain(server: Server): Promise<void> {
  const timer = setTimeout(() => {
    server.closeAllConnections();
  }, drainMs);
  // A scraper keeps its connection: only those in the middle of an answer are worth waiting for.
  await new Promise<void>((resolve) => {
    server.close(() => {
      resolve();
    });
    server.closeIdleConnections();
  });
  clearTimeout(timer);
}
