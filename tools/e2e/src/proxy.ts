import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { type AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { request } from 'undici';

/** One call that went through. */
export interface ProxiedCall {
  readonly path: string;
  /** The phase that the coordinator asks for; undefined on calls to render. */
  readonly phase: string | undefined;
  readonly requestId: string;
  /** As the coordinator sent it. */
  readonly sent: Buffer;
  /** As the upstream answered it, as far as it has come. */
  answered: Buffer;
}

/** What is done to the calls; nothing where a member is absent. */
export interface Tampering {
  request?: (body: string, call: ProxiedCall) => string | Promise<string>;
  /** Holds an answer back until it resolves; streams stay streams. */
  beforeAnswer?: (call: ProxiedCall) => Promise<void>;
  /** Sees whole answers, so streams arrive in one piece. */
  answer?: (body: string, call: ProxiedCall) => string | Promise<string>;
  /** Cuts the connection when so many bytes of an answer have passed; none pass before it is known. */
  cutAfterBytes?: (call: ProxiedCall) => number | undefined | Promise<number | undefined>;
}

/** A hop between a coordinator and its upstream. */
export interface Proxy {
  readonly url: string;
  readonly calls: readonly ProxiedCall[];
  /** Changes what is done from the next call on. */
  tamper(tampering: Tampering): void;
  close(): Promise<void>;
}

/** Starts a proxy in front of an address; it keeps what passed. */
export async function startProxy(target: string, first: Tampering = {}): Promise<Proxy> {
  const calls: ProxiedCall[] = [];
  let tampering = first;
  const server = createServer((incoming, response) => {
    pass(target, incoming, response, tampering, calls).catch(() => response.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    calls,
    tamper(next) {
      tampering = next;
    },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

async function pass(
  target: string,
  incoming: IncomingMessage,
  response: ServerResponse,
  tampering: Tampering,
  calls: ProxiedCall[],
): Promise<void> {
  const { url: path = '/', headers } = incoming;
  const call: ProxiedCall = {
    path,
    phase: headers['epp-profile'] as string | undefined,
    requestId: headers['x-request-id'] as string,
    sent: await buffer(incoming),
    answered: Buffer.alloc(0),
  };
  calls.push(call);
  const gone = new AbortController();
  response.once('close', () => gone.abort());
  const upstream = await request(target + path, {
    method: 'POST',
    headers: without(headers, ['connection', 'content-length', 'host', 'transfer-encoding']),
    body: tampering.request ? await tampering.request(call.sent.toString(), call) : call.sent,
    signal: gone.signal,
  });
  await tampering.beforeAnswer?.(call);
  if (tampering.answer) {
    call.answered = await buffer(upstream.body);
    const body = await tampering.answer(call.answered.toString(), call);
    const kept = without(upstream.headers, ['connection', 'content-length', 'transfer-encoding']);
    response.writeHead(upstream.statusCode, { ...kept, 'content-length': Buffer.byteLength(body) });
    response.end(body);
    return;
  }
  response.writeHead(upstream.statusCode, upstream.headers);
  const limit = (await tampering.cutAfterBytes?.(call)) ?? Infinity;
  for await (const piece of upstream.body) {
    const bytes = piece as Buffer;
    const room = limit - call.answered.length;
    call.answered = Buffer.concat([call.answered, bytes]);
    response.write(bytes.subarray(0, room));
    if (bytes.length >= room) {
      response.socket?.destroySoon();
      return;
    }
  }
  response.end();
}

function without<T>(
  headers: Readonly<Record<string, T>>,
  names: readonly string[],
): Record<string, T> {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !names.includes(name)));
}
