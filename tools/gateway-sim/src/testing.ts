import { createHash } from 'node:crypto';
import { once } from 'node:events';
import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  type ServerResponse,
} from 'node:http';
import { type AddressInfo } from 'node:net';
import { afterEach } from '@jest/globals';
import { request } from 'undici';
import { type Gateway, startGateway } from './gateway.ts';
import { type EndpointSpec, type GatewayOptions } from './options.ts';
import { roleLabel } from './roles.ts';

/** What a pod got. */
export interface Received {
  method: string;
  url: string;
  headers: IncomingMessage['headers'];
  bytes: number;
  sha256: string;
}

/** A real HTTP server that plays a pod or a coordinator. */
export interface Peer {
  port: number;
  url: string;
  received: Received[];
}

/** Servers and gateways of one test file; all are closed after each test. */
export function peerFarm(): {
  pod: (answer?: (response: ServerResponse, request: IncomingMessage) => void) => Promise<Peer>;
  /** A server that reads bodies itself; answers its URL. */
  rawServer: (listener: RequestListener) => Promise<string>;
  gateway: (options: GatewayOptions) => Promise<Gateway>;
} {
  const closers: (() => Promise<void>)[] = [];
  afterEach(async () => {
    await Promise.all(closers.splice(0).map((close) => close()));
  });
  const serve = async (listener: RequestListener): Promise<number> => {
    const server = createServer(listener);
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    closers.push(async () => {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    });
    return (server.address() as AddressInfo).port;
  };
  return {
    rawServer: async (listener) => `http://127.0.0.1:${await serve(listener)}`,
    pod: async (answer = (response) => response.end('{"ok":true}')) => {
      const received: Received[] = [];
      const listener: RequestListener = (incoming, response) => {
        if (incoming.url === '/health/ready') {
          response.end('ok');
          return;
        }
        void digestOf(incoming).then(
          (body) => {
            received.push({
              method: incoming.method ?? '',
              url: incoming.url ?? '',
              headers: incoming.headers,
              ...body,
            });
            answer(response, incoming);
          },
          () => undefined,
        );
      };
      const port = await serve(listener);
      return { port, url: `http://127.0.0.1:${port}`, received };
    },
    gateway: async (options) => {
      const gateway = await startGateway(options);
      closers.push(() => gateway.close());
      return gateway;
    },
  };
}

async function digestOf(incoming: IncomingMessage): Promise<{ bytes: number; sha256: string }> {
  const digest = createHash('sha256');
  let bytes = 0;
  for await (const chunk of incoming as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    digest.update(chunk);
  }
  return { bytes, sha256: digest.digest('hex') };
}

/** A pod entry for the options. */
export const endpoint = (name: string, role: string, port: number): EndpointSpec => ({
  name,
  address: '127.0.0.1',
  port,
  labels: { [roleLabel]: role },
});

/** Sends a generate body on the phase route and reads the whole answer. */
export async function call(
  url: string,
  headers: Record<string, string> = {},
  body: string | Buffer = generateBody(),
  path = '/inference/v1/generate',
): Promise<{
  status: number;
  headers: Record<string, unknown>;
  text: string;
  trailers: Record<string, string>;
}> {
  const answer = await request(url + path, { method: 'POST', headers, body });
  const text = await answer.body.text();
  return { status: answer.statusCode, headers: answer.headers, text, trailers: answer.trailers };
}

/** A tokens-in body of so many ids. */
export const generateBody = (count = 640): string =>
  JSON.stringify({
    model: 'm',
    token_ids: Array.from({ length: count }, (_, index) => index),
    sampling_params: {},
  });
