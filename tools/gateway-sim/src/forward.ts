import { type IncomingMessage, type ServerResponse } from 'node:http';
import { type Readable, Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { type Agent, type Dispatcher, errors } from 'undici';
import { headersWithout } from './headers.ts';
import { type Leg } from './leg-log.ts';

/** Where a call goes and what it carries. */
export interface Target {
  origin: string;
  headers: Record<string, string | string[]>;
  /** Null for a call without a body. */
  body: Readable | null;
  /** Put on the answer, beside the upstream's own. */
  answerHeaders: Record<string, string>;
}

/** How a forwarded call ended, as far as the upstream is concerned. */
export type Forwarded = 'answered' | 'connect-failed' | 'reset' | 'client-gone';

const connectFailures = new Set([
  'ECONNREFUSED',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENOTFOUND',
  'EAI_AGAIN',
  'ETIMEDOUT',
]);

/**
 * Sends a call on and its answer back as it arrives, with back-pressure both ways. The caller's leaving
 * cuts the upstream call. Failures before headers become Envoy's 503; after them the connection is cut.
 */
export async function forward(
  agent: Agent,
  request: IncomingMessage,
  response: ServerResponse,
  target: Target,
  leg: Leg,
): Promise<Forwarded> {
  const gone = new AbortController();
  const onClose = (): void => {
    if (!response.writableFinished) gone.abort();
  };
  response.once('close', onClose);
  let upstream: Dispatcher.ResponseData;
  try {
    if (response.destroyed) gone.abort();
    upstream = await agent.request({
      origin: target.origin,
      path: request.url ?? '/',
      method: request.method ?? 'GET',
      headers: target.headers,
      body: target.body,
      signal: gone.signal,
    });
  } catch (error) {
    if (gone.signal.aborted) {
      leg.flags = 'DC';
      return 'client-gone';
    }
    return failBeforeHeaders(error, request, response, leg);
  }
  leg.status = upstream.statusCode;
  // An answer before the end of the upload: the rest of it would block the caller's connection.
  if (!request.complete) request.unpipe().resume();
  response.writeHead(upstream.statusCode, {
    ...headersWithout(upstream.headers),
    ...target.answerHeaders,
  });
  response.flushHeaders();
  // The pipeline destroys the response on a reset too, so who failed first must be noted here.
  let isReset = false;
  upstream.body.once('error', () => {
    isReset = !gone.signal.aborted;
  });
  try {
    await pipeline(upstream.body, countBytes(response, upstream, leg), response);
    return 'answered';
  } catch {
    leg.flags = isReset ? 'UPE' : 'DC';
    response.destroy();
    return isReset ? 'reset' : 'client-gone';
  }
}

/** Counts what passes, and adds the trailers when the upstream is done. */
const countBytes = (
  response: ServerResponse,
  upstream: Dispatcher.ResponseData,
  leg: Leg,
): Transform =>
  new Transform({
    transform(chunk: Buffer, _encoding, done) {
      leg.bytes_sent += chunk.length;
      done(null, chunk);
    },
    flush(done) {
      const trailers = Object.entries(upstream.trailers);
      if (trailers.length > 0) response.addTrailers(Object.fromEntries(trailers));
      done();
    },
  });

function failBeforeHeaders(
  error: unknown,
  request: IncomingMessage,
  response: ServerResponse,
  leg: Leg,
): Forwarded {
  const isConnect = isConnectFailure(error);
  leg.flags = isConnect ? 'UF' : 'UC';
  const reason = isConnect ? 'remote connection failure' : 'connection termination';
  answerText(
    request,
    response,
    leg,
    503,
    `upstream connect error or disconnect/reset before headers. reset reason: ${reason}`,
  );
  return isConnect ? 'connect-failed' : 'reset';
}

function isConnectFailure(error: unknown): boolean {
  if (error instanceof errors.ConnectTimeoutError) return true;
  // Several addresses of one name fail as one error with a list.
  if (error instanceof AggregateError) return error.errors.every(isConnectFailure);
  const { code, syscall } = error as { code?: string; syscall?: string };
  return connectFailures.has(code ?? '') && syscall !== 'read';
}

/** Answers for the upstream, in plain text as Envoy and the EPP do. */
export function answerText(
  request: IncomingMessage,
  response: ServerResponse,
  leg: Leg,
  status: number,
  text: string,
  headers: Record<string, string> = {},
): void {
  leg.status = status;
  leg.bytes_sent = Buffer.byteLength(text);
  // An upload that nobody reads any more would keep the connection busy.
  if (!request.complete) response.setHeader('connection', 'close');
  response.writeHead(status, {
    ...headers,
    ...(text === '' ? {} : { 'content-type': 'text/plain' }),
    'content-length': leg.bytes_sent,
  });
  response.end(text);
}
