import { type Dispatcher, Pool } from 'undici';
import { ConnectionPool, type ConnectionUse, type PooledHandler } from './connection.ts';
import { decodeContent } from './decode-content.ts';
import { isGathered, toBody } from './request-body.ts';
import { isWriteError, toTransportError, TransportError } from './transport-error.ts';
import {
  type AnswerReceiver,
  type StreamRequest,
  type UpstreamAnswer,
  type UpstreamRequest,
} from './upstream-request.ts';

/** Where an upstream is and how long it may take; times in milliseconds, 0 switches a limit off. */
export interface UpstreamOptions {
  /**
   * Origin with an optional path prefix, for example `http://gateway:80`. User and password in it are sent as basic
   * authentication with requests that have no `authorization` of their own.
   */
  address: string;
  connectTimeoutMs: number;
  /** From the request sent to the answer's headers. */
  headersTimeoutMs: number;
  /** Longest silence inside a streamed body; a receiver that holds it back stops the clock. */
  bodyTimeoutMs: number;
  /** How long an idle connection is kept; a shorter `keep-alive: timeout` of the peer wins. */
  idleTimeoutMs: number;
  /** Idle connections that are kept longer than a second; absent = no limit. */
  maxIdleConnections?: number;
  /** Whole call including its body; only for answers that are read here. */
  callTimeoutMs: number;
  maxAnswerBytes: number;
}

/** Bytes of an error answer that are kept; more never helps a log reader. */
export const maxErrorBytes = 8192;

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
  /** Undefined when the address has no user and no password. */
  readonly #authorization: string | undefined;

  constructor(options: UpstreamOptions) {
    const { origin, pathname, username, password } = new URL(options.address);
    this.#options = options;
    this.#authorization = basicAuthorization(username, password);
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
  stream(request: StreamRequest, receiver: AnswerReceiver): Promise<void> {
    let [isDropped, dropped] = [false, 0];
    const { bodyTimeoutMs } = this.#options;
    return this.#dispatch(
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

  #authorize(headers: readonly string[]): readonly string[] {
    const authorization = this.#authorization;
    if (authorization === undefined) return headers;
    const hasOwn = headers.some((name, i) => i % 2 === 0 && /^authorization$/i.test(name));
    return hasOwn ? headers : [...headers, 'authorization', authorization];
  }

  #dispatch(request: StreamRequest, limits: CallLimits, handler: AnswerHandler): Promise<void> {
    const { signal, onSent } = request;
    /** Let go when the answer begins: an open stream holds no prompt. */
    let outgoing: StreamRequest | undefined = request;
    const { callTimeoutMs, bodyTimeoutMs } = limits;
    return new Promise((resolve, reject) => {
      if (signal.aborted) {
        reject(reasonOf(signal));
        return;
      }
      let controller: Dispatcher.DispatchController | undefined;
      let use: ConnectionUse | undefined;
      let isSent = false;
      let sending: ReturnType<typeof toBody>;
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
        if (isSettled || !outgoing) return;
        const { method = 'POST', path, body } = outgoing;
        const headers = this.#authorize(outgoing.headers);
        const sized = body?.byteLength !== undefined;
        sending = toBody(body);
        this.#pool.dispatch(
          {
            method,
            path: this.#pathPrefix + path,
            headers: sized ? [...headers, 'content-length', String(body.byteLength)] : [...headers],
            body: sending,
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
          else if (isGathered(outgoing?.body)) exchange.connection?.gather();
        },
        onRequestSent() {
          exchange.connection?.flush();
          if (isSettled) return;
          isSent = true;
          onSent?.();
        },
        onResponseStart(started, status, parsed) {
          if (status < 200 || isSettled) return;
          outgoing = undefined;
          // undici keeps the list of pieces as long as the exchange.
          if (isSent && Array.isArray(sending)) sending.length = 0;
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
          const isFirst = !exchange.isFreshWanted;
          if (isFirst && outgoing && use && mayRepeat(outgoing, use, isSent, error)) {
            exchange.isFreshWanted = true;
            if (outgoing.counts) outgoing.counts.retries = 1;
            // undici is still busy with the connection that broke.
            queueMicrotask(send);
          } else settle(toTransportError(error));
        },
      };
      send();
    });
  }
}

function basicAuthorization(username: string, password: string): string | undefined {
  if (username === '' && password === '') return undefined;
  const credentials = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`;
  return `Basic ${Buffer.from(credentials).toString('base64')}`;
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

function toStrings(raw: Dispatcher.DispatchController['rawHeaders']): string[] {
  return Array.isArray(raw) ? raw.map((item) => item.toString('latin1')) : [];
}
