import { type StreamFlow, type StreamRequest, type UpstreamClient } from '@llm-d/gateway';
import { type JsonRaw } from '@llm-d/json-document';
import {
  BadUpstreamAnswerError,
  ClientGoneError,
  CoordinatorError,
  errorEvent,
  type ForwardedHeaders,
  type RequestContext,
  type ResponseSink,
  ResponseStartedError,
  type StepDependencies,
  toCoordinatorError,
  UpstreamError,
} from '@llm-d/pipeline';
import { droppedReasonHeader, gatewayFault } from './gateway-fault.ts';
import { HeldAnswer } from './held-answer.ts';
import { AnswerHead, logLegRequest, logRelayedAnswer } from './leg-log.ts';
import { noteRetry, noteServer, ownHeaders, servedByHeader } from './leg.ts';

/** One decode call whose answer is the client's answer. */
export interface RelayLeg {
  readonly step: string;
  readonly client: UpstreamClient;
  readonly path: string;
  readonly body: JsonRaw;
  /** Headers of this leg alone; names and values in turn. */
  readonly headers?: readonly string[];
  /** The status that means "not here": nothing reaches the client then. */
  readonly deferStatus?: number;
  /** Ends this leg earlier than the request. */
  readonly signal?: AbortSignal;
  /** What passes of the client's headers, where that is less than on other legs. */
  readonly clientHeaders?: ForwardedHeaders;
  /** Whether a 429 or a 5xx means the same: no worker has begun with the request. */
  readonly defersFailures?: boolean;
  /** Called when the leg is on the wire. */
  readonly onSent?: (() => void) | undefined;
}

/** Hop-by-hop headers, and the id that every answer of ours carries anyway. */
const notRelayed = new Set([
  ...['connection', 'keep-alive', 'proxy-authenticate', 'proxy-authorization', 'proxy-connection'],
  ...['te', 'trailer', 'transfer-encoding', 'upgrade', 'x-request-id'],
]);

/** Of a request what its relayed answer needs. */
export type RelayContext = Pick<RequestContext, 'requestId' | 'signal' | 'sink'>;

/**
 * Hands a worker's answer to the client as bytes, holding the worker back while the client reads slowly. JSON for a
 * request that is not streamed waits until it is whole, up to `maxHeldBytes`: what breaks off before is an error.
 *
 * @returns whether the worker served; false when it answered with a status that the leg defers.
 * @throws UpstreamError for an error that is not JSON: a gateway's own text instead of a worker's answer (design.md
 *   decision 16). ResponseStartedError when the answer was an error or broke off after it had started.
 */
export async function relayLeg(
  ctx: RequestContext,
  dependencies: StepDependencies,
  leg: RelayLeg,
): Promise<boolean> {
  const { step, client, path, body, headers = [], deferStatus, defersFailures = false } = leg;
  const { signal = ctx.signal, clientHeaders = ctx.headers, onSent } = leg;
  const entry = ctx.begin({ name: step, kind: 'leg', phase: 'decode' });
  const own = [...ownHeaders(ctx, dependencies, 'decode', step), ...headers];
  entry.requestBytes = body.byteLength;
  const refusal: { error?: UpstreamError } = {};
  let isDeferred = false;
  const all = [...own, ...ctx.observedHeaders(entry)];
  const head = AnswerHead.of(ctx);
  try {
    const request = {
      path,
      // A coding cannot begin behind comments.
      headers: ctx.sink.keepAlive ? clientHeaders.forReading(all) : clientHeaders.forRelay(all),
      body,
      signal,
      counts: entry,
      onSent,
    };
    logLegRequest(ctx, step, request);
    await relay(ctx, step, client, request, {
      start(status, answered) {
        entry.status = status;
        entry.headersMs = ctx.elapsedMs();
        entry.responseBytes = 0;
        noteServer(entry, valueOf(answered, servedByHeader));
        isDeferred =
          status === deferStatus || (defersFailures && (status === 429 || status >= 500));
        if (isDeferred) return false;
        if (status >= 400 && !isJson(answered)) {
          refusal.error = refusedAnswer(step, status, answered);
          return false;
        }
        const isHeld =
          !ctx.isStreaming && isJson(answered) && valueOf(answered, 'content-length') !== undefined;
        return isHeld ? 'hold' : true;
      },
      data(chunk) {
        ctx.answerTail.add(chunk);
        head?.add(chunk);
        entry.responseBytes = (entry.responseBytes ?? 0) + chunk.length;
      },
    });
    if (refusal.error) throw refusal.error;
    ctx.finish(entry);
  } catch (error) {
    ctx.finish(entry, error);
    throw error;
  } finally {
    if (entry.retries !== undefined) noteRetry(ctx, step);
    logRelayedAnswer(ctx, entry, head);
  }
  return !isDeferred;
}

/** Looks at a relayed answer on its way. */
export interface RelayWatch {
  /** Returning false keeps the answer from the client; `hold` keeps it back until it is whole. */
  start(status: number, headers: readonly string[]): boolean | 'hold';
  data?(chunk: Uint8Array): void;
}

/**
 * Calls an upstream and hands the answer to the client unless `watch` refuses it by status and headers.
 *
 * @throws ResponseStartedError when the answer that the client got was an error or broke off.
 */
export async function relay(
  ctx: RelayContext,
  step: string,
  client: UpstreamClient,
  request: StreamRequest,
  watch: RelayWatch = { start: () => true },
): Promise<void> {
  const { sink } = ctx;
  const stream = new StreamEnd();
  const refusal: { error?: CoordinatorError } = {};
  let answer: ResponseSink | HeldAnswer = sink;
  let held: StreamFlow | undefined;
  let relayedStatus = 0;
  try {
    await client.stream(request, {
      start(status, answered, flow) {
        const verdict = watch.start(status, answered);
        if (verdict === false) return false;
        stream.begin(answered, sink.keepAlive === 'begun');
        if (sink.keepAlive === 'begun' && (status !== 200 || !stream.isEventStream)) {
          refusal.error = noStream(step, status, answered);
          return false;
        }
        relayedStatus = status;
        held = flow;
        sink.onDrain(() => flow.resume());
        const headers = relayable(answered);
        if (verdict === 'hold') answer = new HeldAnswer(sink, status, headers);
        else sink.start(status, headers);
        return true;
      },
      data(chunk) {
        stream.note(chunk);
        watch.data?.(chunk);
        if (!answer.write(chunk)) held?.pause();
      },
    });
  } catch (error) {
    if (relayedStatus !== 0 && sink.isStarted) breakOff(ctx, step, stream, error);
    throw error;
  }
  if (refusal.error) throw refusal.error;
  if (relayedStatus === 0) return;
  answer.end();
  if (relayedStatus >= 400) throw new ResponseStartedError(step, relayedStatus);
}

/** Ends an answer that cannot be completed: an event stream with one error event, everything else with a cut. */
function breakOff(ctx: RelayContext, step: string, stream: StreamEnd, cause: unknown): never {
  const isGone = ctx.signal.reason instanceof ClientGoneError;
  if (stream.isEventStream && !isGone) {
    const event = errorEvent(toCoordinatorError(cause, step), ctx.requestId);
    ctx.sink.write(Buffer.concat([Buffer.from(stream.separator), event]));
    ctx.sink.end(true);
  } else ctx.sink.abort();
  if (cause instanceof CoordinatorError) throw cause;
  throw new ResponseStartedError(step, 0, { cause });
}

/** An answer that cannot follow the comments of a stream that has begun. */
const noStream = (step: string, status: number, headers: readonly string[]): CoordinatorError =>
  status < 400
    ? new BadUpstreamAnswerError(step, `the answer is no event stream (HTTP ${status})`)
    : refusedAnswer(step, status, headers);

/** An error answer whose body the client does not get. */
function refusedAnswer(step: string, status: number, headers: readonly string[]): UpstreamError {
  const isEmpty = valueOf(headers, 'content-length') === '0';
  return new UpstreamError(step, status, {
    headers: status === 429 || status === 503 ? pick(headers, overloadNames) : [],
    gatewayFault: gatewayFault(status, valueOf(headers, droppedReasonHeader), isEmpty),
  });
}

const relayable = (headers: readonly string[]): string[] =>
  pick(headers, (name) => !notRelayed.has(name));

/** What tells a client when to come back. */
const overloadNames = (name: string): boolean =>
  name === 'retry-after' || name === 'x-should-retry';

const isJson = (headers: readonly string[]): boolean =>
  /^application\/(?:[^;]+\+)?json/i.test(valueOf(headers, 'content-type') ?? '');

/** The first value of a header; the name in lower case. */
function valueOf(headers: readonly string[], wanted: string): string | undefined {
  for (let i = 0; i + 1 < headers.length; i += 2) {
    if (headers[i]?.toLowerCase() === wanted) return headers[i + 1];
  }
  return undefined;
}

/** The headers whose lower-case name is wanted; names and values in turn. */
export function pick(headers: readonly string[], isWanted: (name: string) => boolean): string[] {
  const picked: string[] = [];
  for (let i = 0; i + 1 < headers.length; i += 2) {
    const name = headers[i] ?? '';
    if (isWanted(name.toLowerCase())) picked.push(name, headers[i + 1] ?? '');
  }
  return picked;
}

/** Knows whether an event can be added to a stream, and what must come before it. */
class StreamEnd {
  isEventStream = false;
  #last: Uint8Array = Buffer.from('\n\n');

  /** `isOpen`: the stream has begun before, so that this answer's length does not count. */
  begin(headers: readonly string[], isOpen: boolean): void {
    this.isEventStream =
      /^text\/event-stream/i.test(valueOf(headers, 'content-type') ?? '') &&
      valueOf(headers, 'content-encoding') === undefined &&
      (isOpen || valueOf(headers, 'content-length') === undefined);
  }

  note(chunk: Uint8Array): void {
    this.#last = chunk;
  }

  /** A cut may fall inside an event: a blank line closes it, so that the next one is read by itself. */
  get separator(): string {
    const end = Buffer.from(this.#last.subarray(-4)).toString('latin1');
    return end.endsWith('\n\n') || end.endsWith('\r\n\r\n') ? '' : '\n\n';
  }
}
