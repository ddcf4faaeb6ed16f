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
  /** As the coordinator sent it; empty until it is whole. */
  sent: Buffer;
  /** As the upstream answered it, as far as it has come. */
  answered: Buffer;
}

/** How a call ended on the coordinator's side. */
export interface CallEnd {
  /** `performance.now()` when its answer was whole or its connection closed. */
  readonly at: number;
  /** Whether the connection closed before the answer was whole. */
  readonly isCut: boolean;
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
  /** Hears of every call's end. */
  ended?: (call: ProxiedCall, end: CallEnd) => void;
}

/** A hop between a coordinator and its upstream. */
export interface Proxy {
  readonly url: string;
  /** Where calls go on to; may be set later than the coordinator is told of the proxy. */
  target: string;
  readonly calls: readonly ProxiedCall[];
  /** Calls that the coordinator holds open. */
  readonly open: number;
  /** Changes what is done from the next call on. */
  tamper(tampering: Tampering): void;
  close(): Promise<void>;
}

/** What a proxy remembers. */
export interface ProxyOptions {
  /** Whether `calls` grows, which is for tests with few of them; true when absent. */
  readonly isKeeping?: boolean;
}

/** Starts a proxy in front of an address. */
export async function startProxy(
  firstTarget: string,
  first: Tampering = {},
  { isKeeping = true }: ProxyOptions = {},
): Promise<Proxy> {
  const calls: ProxiedCall[] = [];
  let [target, tampering] = [firstTarget, first];
  let open = 0;
  const server = createServer((incoming, response) => {
    const call = callOf(incoming);
    if (isKeeping) calls.push(call);
    const { ended } = tampering;
    open += 1;
    response.once('close', () => {
      open -= 1;
      ended?.(call, { at: performance.now(), isCut: !response.writableFinished });
    });
    pass(target, incoming, response, tampering, call).catch(() => response.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    calls,
    get target() {
      return target;
    },
    set target(next) {
      target = next;
    },
    get open() {
      return open;
    },
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

function callOf({ url: path = '/', headers }: IncomingMessage): ProxiedCall {
  return {
    path,
    phase: headers['epp-profile'] as string | undefined,
    requestId: headers['x-request-id'] as string,
    sent: Buffer.alloc(0),
    answered: Buffer.alloc(0),
  };
}

async function pass(
  target: string,
  incoming: IncomingMessage,
  response: ServerResponse,
  tampering: Tampering,
  call: ProxiedCall,
): Promise<void> {
  const gone = new AbortController();
  response.once('close', () => gone.abort());
  call.sent = await buffer(incoming);
  const upstream = await request(target + call.path, {
    method: 'POST',
    headers: without(incoming.headers, [
      'connection',
      'content-length',
      'host',
      'transfer-encoding',
    ]),
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
