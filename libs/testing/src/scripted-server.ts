import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { type AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

/**
 * How an answer can end before it is whole: never, by a close in the middle, or by a reset. A reset takes away what the
 * caller has not read yet: wait for the caller's event before it where the bytes matter.
 */
export type Ending = 'hang' | 'close' | 'reset';

/** A piece of a body: bytes to send, an event or a number of milliseconds to wait for, or an early end. */
export type Piece =
  string | Uint8Array | { readonly wait: Promise<unknown> | number } | { readonly end: Ending };

/** What the server does with one call. Without a body part the body is empty. */
export interface Answer {
  /** 200 when absent. */
  readonly status?: number;
  /** A list repeats the header. `content-length` promises a length whatever is sent. */
  readonly headers?: Readonly<Record<string, string | readonly string[]>>;
  /** Sent as JSON with its content type. */
  readonly json?: unknown;
  readonly text?: string;
  readonly bytes?: Uint8Array;
  /** Sent piece by piece, chunked; an endless generator ends with the connection. */
  readonly chunks?: Iterable<Piece>;
  /** Waits before anything is sent. */
  readonly delay?: Promise<unknown> | number;
  /** Ends the call before the first byte of the answer. */
  readonly beforeHeaders?: Ending;
}

/** One answer for every call, answers in order of arrival (the last repeats), or a choice by what was asked. */
export type Script = Answer | readonly Answer[] | ((call: RecordedCall) => Answer);

/** A call as it arrived. */
export interface RecordedCall {
  readonly method: string;
  /** Path and query as they were asked for. */
  readonly path: string;
  /** All values of each header in order, by lower-case name. */
  readonly headers: Readonly<Record<string, readonly string[]>>;
  /** Names and values in turn, as they were written. */
  readonly rawHeaders: readonly string[];
  /** What has arrived of the body. */
  body: Buffer;
  /** Whether the caller closed the connection before the answer was whole. */
  aborted: boolean;
  /** Bytes of the answer's body that the connection took. */
  sentBytes: number;
  /** Number of the connection, counted from 0. */
  readonly connection: number;
  /** Resolves when the call is over, for whatever reason. */
  readonly ended: Promise<void>;
  /** The body as a value. */
  json(): unknown;
}

/** A real HTTP server that plays a script and records what it was asked. */
export interface ScriptedServer {
  /** `http://127.0.0.1:port`. */
  readonly url: string;
  /** In order of arrival. */
  readonly calls: readonly RecordedCall[];
  /** How many connections were opened so far. */
  readonly connectionCount: number;
  /** How many are open at this moment. */
  readonly openConnectionCount: number;
  /** Answers by another script from the next call on; a list starts at its first answer. */
  play(script: Script): void;
  /** Resolves with the call of this index as soon as its headers are there. */
  arrived(index: number): Promise<RecordedCall>;
  /** Resolves with the call of this index when its body is complete too. */
  received(index: number): Promise<RecordedCall>;
  /** Closes the connections on which no call is open, as a peer does after its own idle time. */
  closeIdleConnections(): void;
  /** Cuts what is open and stops listening; may be called again. */
  close(): Promise<void>;
}

interface OpenCall {
  readonly call: RecordedCall;
  isReceived: boolean;
}

/** Starts a server on a free port of the loopback; the caller closes it. */
export async function scriptedServer(script: Script = {}): Promise<ScriptedServer> {
  const open: OpenCall[] = [];
  const waiting = new Set<() => void>();
  const connections = new Map<object, number>();
  const closing = new AbortController();
  let [current, played, connectionCount] = [script, 0, 0];
  let closed: Promise<void> | undefined;

  const notify = (): void => {
    for (const check of waiting) check();
  };
  const until = (index: number, isReached: (found: OpenCall) => boolean): Promise<RecordedCall> =>
    new Promise((resolve) => {
      const check = (): void => {
        const found = open[index];
        if (!found || !isReached(found)) return;
        waiting.delete(check);
        resolve(found.call);
      };
      waiting.add(check);
      check();
    });

  const server = createServer({ keepAliveTimeout: 60_000, requestTimeout: 0 });
  server.on('connection', (socket) => {
    connections.set(socket, connectionCount++);
    socket.on('close', () => connections.delete(socket));
  });
  server.on('request', (request, response) => {
    const call = record(request, response, connections.get(request.socket) ?? -1);
    const entry: OpenCall = { call, isReceived: false };
    open.push(entry);
    notify();
    const pieces: Buffer[] = [];
    request.on('data', (piece: Buffer) => {
      pieces.push(piece);
      call.body = Buffer.concat(pieces);
    });
    request.on('error', () => {});
    request.on('end', () => {
      entry.isReceived = true;
      notify();
      const answer = choose(current, call, played++);
      play(answer, call, response, closing.signal).catch(() => response.destroy());
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');

  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    get calls() {
      return open.map(({ call }) => call);
    },
    get connectionCount() {
      return connectionCount;
    },
    get openConnectionCount() {
      return connections.size;
    },
    play(next) {
      [current, played] = [next, 0];
    },
    arrived: (index) => until(index, () => true),
    received: (index) => until(index, ({ isReceived }) => isReceived),
    closeIdleConnections: () => server.closeIdleConnections(),
    close: () => (closed ??= close(server, closing)),
  };
}

async function close(server: Server, closing: AbortController): Promise<void> {
  closing.abort();
  const closed = once(server, 'close');
  server.close();
  server.closeAllConnections();
  await closed;
}

function record(
  request: IncomingMessage,
  response: ServerResponse,
  connection: number,
): RecordedCall {
  const headers: Record<string, string[]> = {};
  for (let i = 0; i + 1 < request.rawHeaders.length; i += 2) {
    const [name = '', value = ''] = request.rawHeaders.slice(i, i + 2);
    (headers[name.toLowerCase()] ??= []).push(value);
  }
  const call: RecordedCall = {
    method: request.method ?? '',
    path: request.url ?? '',
    headers,
    rawHeaders: request.rawHeaders,
    body: Buffer.alloc(0),
    aborted: false,
    sentBytes: 0,
    connection,
    ended: new Promise((resolve) => {
      response.on('close', () => {
        call.aborted = !response.writableFinished && !endedHere.has(response);
        resolve();
      });
    }),
    json: () => JSON.parse(call.body.toString('utf8')) as unknown,
  };
  return call;
}

/** Answers that the server itself broke off: their end is not the caller's doing. */
const endedHere = new WeakSet<ServerResponse>();

function choose(script: Script, call: RecordedCall, index: number): Answer {
  if (typeof script === 'function') return script(call);
  if (isList(script)) return script[Math.min(index, script.length - 1)] ?? {};
  return script;
}

// Array.isArray does not narrow readonly arrays.
const isList = (script: Answer | readonly Answer[]): script is readonly Answer[] =>
  Array.isArray(script);

async function play(
  answer: Answer,
  call: RecordedCall,
  response: ServerResponse,
  closing: AbortSignal,
): Promise<void> {
  if (answer.delay !== undefined) await wait(answer.delay, response, closing);
  if (answer.beforeHeaders) {
    endEarly(answer.beforeHeaders, response);
    return;
  }
  if (answer.json !== undefined) response.setHeader('content-type', 'application/json');
  for (const [name, value] of Object.entries(answer.headers ?? {})) {
    response.setHeader(name, typeof value === 'string' ? value : [...value]);
  }
  response.statusCode = answer.status ?? 200;
  if (!answer.chunks) {
    const body = wholeBody(answer);
    if (!response.hasHeader('content-length')) response.setHeader('content-length', body.length);
    call.sentBytes = body.length;
    response.end(body);
    return;
  }
  response.flushHeaders();
  for (const piece of answer.chunks) {
    if (response.destroyed) return;
    if (typeof piece === 'string' || piece instanceof Uint8Array) {
      const isTaken = response.write(piece);
      call.sentBytes += typeof piece === 'string' ? Buffer.byteLength(piece) : piece.length;
      if (!isTaken) await drained(response);
    } else if ('wait' in piece) await wait(piece.wait, response, closing);
    else {
      // What was written must be on its way before the connection goes.
      await new Promise((resolve) => setImmediate(resolve));
      endEarly(piece.end, response);
      return;
    }
  }
  response.end();
}

function wholeBody({ json, text, bytes }: Answer): Uint8Array {
  if (json !== undefined) return Buffer.from(JSON.stringify(json));
  return text === undefined ? (bytes ?? Buffer.alloc(0)) : Buffer.from(text);
}

function endEarly(ending: Ending, response: ServerResponse): void {
  if (ending === 'hang') return;
  endedHere.add(response);
  if (ending === 'close') response.socket?.destroySoon();
  else response.socket?.resetAndDestroy();
}

/** Waits for the event or the time, but no longer than the call lasts. */
async function wait(
  event: Promise<unknown> | number,
  response: ServerResponse,
  closing: AbortSignal,
): Promise<void> {
  const over = new AbortController();
  const isOver = once(response, 'close', { signal: over.signal }).catch(() => {});
  const happened = typeof event === 'number' ? sleep(event, undefined, { signal: closing }) : event;
  await Promise.race([happened, isOver]);
  over.abort();
}

async function drained(response: ServerResponse): Promise<void> {
  const over = new AbortController();
  const { signal } = over;
  const events = ['drain', 'close'].map((name) => once(response, name, { signal }).catch(() => {}));
  await Promise.race(events);
  over.abort();
}
