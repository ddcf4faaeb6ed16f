import { type Readable } from 'node:stream';
import { type Dispatcher, Pool } from 'undici';
import { ConnectionPool, type ConnectionUse, type PooledHandler } from './connection.ts';
import { decodeContent } from './decode-content.ts';
import { isWriteError, toTransportError, TransportError } from './transport-error.ts';

/** Bytes that are sent as they are; a JsonRaw fits. */
export interface Payload {
  readonly byteLength: number;
  readonly chunks: readonly Uint8Array[];
}

/** One POST to an upstream. */
export interface UpstreamRequest {
  readonly path: string;
  /** Names and values in turn; a name may repeat. */
  readonly headers: readonly string[];
  readonly body: Payload;
  readonly signal: AbortSignal;
  /** Whether a second run does no harm, as with GET, so that a call on a connection that the peer had closed may be sent again. */
  readonly isRepeatable?: boolean;
  /** Hears of calls that were sent again. */
  readonly counts?: CallCounts;
  /** Called when the whole request is on its way, again when it is sent again; before, no upstream can act on it. */
  readonly onSent?: (() => void) | undefined;
}

/** What happened to a call on its way. */
export interface CallCounts {
  /** How often it was sent again on another connection. */
  retries?: number;
}

/** A body that is sent while it arrives from somewhere else, no faster than the upstream takes it. */
export interface ArrivingBody {
  /** Declared length; undefined sends it in chunks. */
  readonly byteLength: number | undefined;
  /** Destroyed when the call ends. A failure of its source aborts the call's signal. */
  readonly stream: Readable;
}

/** One call whose answer is handed on. */
export interface StreamRequest extends Omit<UpstreamRequest, 'body'> {
  /** POST when absent. */
  readonly method?: string;
  /** Undefined for a call without a body. */
  readonly body: Payload | ArrivingBody | undefined;
}

/** A whole answer; the body is unpacked, and cut at `maxErrorBytes` unless the status is 200. */
export interface UpstreamAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: Buffer;
  /** `performance.now()` when status and headers came. */
  readonly headersAt: number;
}

/** Lets the receiver of a streamed answer hold it back. */
export interface StreamFlow {
  pause(): void;
  resume(): void;
}

/** Takes a streamed answer as it arrives. */
export interface AnswerReceiver {
  /** Status and headers (names and values in turn). Returning false drops the body and ends the call well. */
  start(status: number, headers: readonly string[], flow: StreamFlow): boolean;
  data(chunk: Uint8Array): void;
}

/** Where an upstream is and how long it may take; times in milliseconds, 0 switches a limit off. */
export interface UpstreamOptions {
  /** Origin with an optional path prefix, for example `http://gateway:80`. */
  address: string;
  connectTimeoutMs: number;
  /** From the request sent to the answer's headers. */
  headersTimeoutMs: number;
  /** Longest silence inside a streamed body; a receiver that holds it back stops the clock. */
  bodyTimeoutMs: number;
  /** How long an idle connection is kept; a shorter `keep-alive: timeout` of the peer wins. */
  idleTimeoutMs: number;
  /** Idle connections that are kept; absent = no limit. */
  maxIdleConnections?: number;
  /** Whole call including its body; only for answers that are read here. */
  callTimeoutMs: number;
  maxAnswerBytes: number;
}

/** Bytes of an error answer that are kept; more never helps a log reader. */
export const maxErrorBytes = 8192;

/** Bodies up to this size are sent in one piece: one write is cheaper than several. */
const singleWriteBytes = 65_536;

/** Larger bodies go out as fast as the peer reads them. */
const maxGatheredBytes = 4 * 1024 * 1024;

/** Bytes of a dropped answer that are read so that the connection can be used again. */
const maxDrainedBytes = 65_536;

/**
 * Calls one upstream over kept-alive connections without a cap on their number: open streams would meet it. Redirects
 * are answers like any other, environment proxies are not used.
 *
 * A call that was sent on a connection which the peer was closing is sent again, once and on a new connection, where
 * that is safe: the peer cannot have got the whole request, or it may run twice (`isRepeatable`) and no byte of an
 * answer came.
 */
export class UpstreamClient {
  readonly #options: UpstreamOptions;
  readonly #pool: Pool;
  readonly #pathPrefix: string;

  constructor(options: UpstreamOptions) {
    const { origin, pathname } = new URL(options.address);
    this.#options = options;
    this.#pathPrefix = pathname.replace(/\/+$/, '');
    this.#pool = new Pool(origin, {
      connections: null,
      pipelining: 1,
      // Under HTTP/2 undici takes a stream that its peer ends with NO_ERROR, as Envoy does, for a whole answer.
      allowH2: false,
      factory: new ConnectionPool(options.maxIdleConnections ?? Infinity).open,
      connect: { timeout: options.connectTimeoutMs, keepAlive: true },
      headersTimeout: options.headersTimeoutMs,
      bodyTimeout: options.bodyTimeoutMs,
      keepAliveTimeout: options.idleTimeoutMs,
      keepAliveMaxTimeout: options.idleTimeoutMs,
    });
  }

  /**
   * Sends a request and reads the whole answer, whatever its status.
   *
   * @throws TransportError when no whole answer came; the signal's reason when it was aborted.
   */
  async call(request: UpstreamRequest): Promise<UpstreamAnswer> {
    const { callTimeoutMs, maxAnswerBytes } = this.#options;
    const chunks: Uint8Array[] = [];
    let [status, length, limit, headersAt] = [0, 0, maxErrorBytes, 0];
    let headers: UpstreamAnswer['headers'] = {};
    await this.#dispatch(
      request,
      { callTimeoutMs, bodyTimeoutMs: 0 },
      {
        start: (code, parsed) => {
          status = code;
          headers = parsed;
          headersAt = performance.now();
          if (code === 200) limit = maxAnswerBytes;
          return true;
        },
        data: (chunk, abort) => {
          length += chunk.length;
          if (length <= limit) chunks.push(chunk);
          else if (status === 200) abort(new TransportError('answer-too-large'));
          else {
            chunks.push(chunk.subarray(0, Math.max(0, chunk.length - (length - limit))));
            if (length > limit + maxDrainedBytes) abort(undefined);
          }
        },
      },
    );
    const [first] = chunks;
    const packed =
      chunks.length === 1 && first
        ? Buffer.from(first.buffer, first.byteOffset, first.length)
        : Buffer.concat(chunks);
    const encoding = headers['content-encoding'];
    if (status !== 200 || encoding === undefined) {
      return { status, headers, body: packed, headersAt };
    }
    const body = await decodeContent(packed, String(encoding), maxAnswerBytes);
    return { status, headers, body, headersAt };
  }

  /**
   * Sends a request and hands the answer on while it arrives. Resolves when the answer is complete or was dropped.
   *
   * @throws TransportError when the answer did not come or broke off; the signal's reason when it was aborted.
   */
  async stream(request: StreamRequest, receiver: AnswerReceiver): Promise<void> {
    let [isDropped, dropped] = [false, 0];
    const { bodyTimeoutMs } = this.#options;
    await this.#dispatch(
      request,
      { callTimeoutMs: 0, bodyTimeoutMs },
      {
        start: (status, _parsed, started) => {
          isDropped = !receiver.start(status, toStrings(started.rawHeaders), started);
          return true;
        },
        data: (chunk, abort) => {
          if (!isDropped) receiver.data(chunk);
          else if ((dropped += chunk.length) > maxDrainedBytes) abort(undefined);
        },
      },
    );
  }

  /** Lets open calls finish, then closes all connections; may be called again. */
  async close(): Promise<void> {
    if (!this.#pool.destroyed) await this.#pool.close();
  }

  /** Cuts all calls and connections. */
  async destroy(): Promise<void> {
    await this.#pool.destroy();
  }

  #dispatch(request: StreamRequest, limits: CallLimits, handler: AnswerHandler): Promise<void> {
    const { method = 'POST', path, headers, body, signal, onSent } = request;
    const { callTimeoutMs, bodyTimeoutMs } = limits;
    return new Promise((resolve, reject) => {
      if (signal.aborted) {
        reject(reasonOf(signal));
        return;
      }
      let controller: Dispatcher.DispatchController | undefined;
      let use: ConnectionUse | undefined;
      let isSent = false;
      let timer: NodeJS.Timeout | undefined;
      let isSettled = false;
      const settle = (error?: Error): void => {
        if (isSettled) return;
        isSettled = true;
        signal.removeEventListener('abort', onAbort);
        clearTimeout(timer);
        if (error) reject(error);
        else resolve();
      };
      /** Ends the call from this side: without an error it counts as done. */
      const abort = (error: Error | undefined): void => {
        settle(error);
        controller?.abort(error ?? endedHere);
      };
      const onAbort = (): void => abort(reasonOf(signal));
      signal.addEventListener('abort', onAbort);
      if (callTimeoutMs > 0) {
        timer = setTimeout(() => abort(new TransportError('timeout')), callTimeoutMs);
      }
      const send = (): void => {
        if (isSettled) return;
        const sized = body?.byteLength !== undefined;
        this.#pool.dispatch(
          {
            method,
            path: this.#pathPrefix + path,
            headers: sized ? [...headers, 'content-length', String(body.byteLength)] : [...headers],
            body: toBody(body),
            bodyTimeout: bodyTimeoutMs,
          },
          exchange,
        );
      };
      const exchange: PooledHandler = {
        isFreshWanted: false,
        onRequestStart(started) {
          controller = started;
          use = exchange.connection?.begin();
          isSent = false;
          if (isSettled) started.abort(endedHere);
          else if (isGathered(body)) exchange.connection?.gather();
        },
        onRequestSent() {
          exchange.connection?.flush();
          if (isSettled) return;
          isSent = true;
          onSent?.();
        },
        onResponseStart(started, status, parsed) {
          if (status < 200 || isSettled) return;
          try {
            handler.start(status, parsed, started);
          } catch (error) {
            abort(error instanceof Error ? error : new Error(String(error)));
          }
        },
        onResponseData(_controller, chunk) {
          if (!isSettled) handler.data(chunk, abort);
        },
        onResponseEnd() {
          exchange.connection?.rest();
          settle();
        },
        onResponseError(_controller, error) {
          if (isSettled) return;
          if (!exchange.isFreshWanted && use && mayRepeat(request, use, isSent, error)) {
            exchange.isFreshWanted = true;
            if (request.counts) request.counts.retries = 1;
            // undici is still busy with the connection that broke.
            queueMicrotask(send);
          } else settle(toTransportError(error));
        },
      };
      send();
    });
  }
}

/** Milliseconds; 0 = no limit. */
interface CallLimits {
  readonly callTimeoutMs: number;
  readonly bodyTimeoutMs: number;
}

/** Whether a broken call can be sent again: only where it used a connection that may have been stale. */
function mayRepeat(
  { body, isRepeatable = false }: StreamRequest,
  { isReused, socket, bytesRead }: ConnectionUse,
  isSent: boolean,
  error: unknown,
): boolean {
  if (!isReused || socket?.bytesRead !== bytesRead || (body && 'stream' in body)) return false;
  if (toTransportError(error).fault !== 'reset') return false;
  return isRepeatable || !isSent || isWriteError(error);
}

interface AnswerHandler {
  start(
    status: number,
    parsed: UpstreamAnswer['headers'],
    started: Dispatcher.DispatchController,
  ): void;
  data(chunk: Uint8Array, abort: (error: Error | undefined) => void): void;
}

const endedHere = new Error('the call was ended on this side');

function reasonOf(signal: AbortSignal): Error {
  return signal.reason instanceof Error ? signal.reason : new Error('aborted');
}

/** Whether the body is in memory, in more than one piece, and not so large that its upload should be watched. */
function isGathered(body: StreamRequest['body']): boolean {
  if (!body || 'stream' in body) return false;
  return body.byteLength > singleWriteBytes && body.byteLength <= maxGatheredBytes;
}

function toBody(body: StreamRequest['body']): Uint8Array | Readable | null {
  if (!body) return null;
  if ('stream' in body) return body.stream;
  const { chunks, byteLength } = body;
  const [first] = chunks;
  if (chunks.length === 1 && first) return first;
  if (byteLength <= singleWriteBytes) return Buffer.concat(chunks);
  // undici sends any iterable of bytes chunk by chunk; its types only know streams.
  return joinSmall(chunks) as unknown as Readable;
}

/** Joins neighbours below `singleWriteBytes`, the edits between long unchanged runs: each chunk costs a system call. */
function joinSmall(chunks: readonly Uint8Array[]): Uint8Array[] {
  const joined: Uint8Array[] = [];
  let small: Uint8Array[] = [];
  const flush = (): void => {
    const [only] = small;
    if (only) joined.push(small.length === 1 ? only : Buffer.concat(small));
    small = [];
  };
  for (const chunk of chunks) {
    if (chunk.length < singleWriteBytes) small.push(chunk);
    else {
      flush();
      joined.push(chunk);
    }
  }
  flush();
  return joined;
}

function toStrings(raw: Dispatcher.DispatchController['rawHeaders']): string[] {
  return Array.isArray(raw) ? raw.map((item) => item.toString('latin1')) : [];
}
