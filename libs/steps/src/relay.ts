import { type StreamFlow, type StreamRequest, type UpstreamClient } from '@llm-d/gateway';
import { type JsonRaw } from '@llm-d/json-document';
import {
  ClientGoneError,
  CoordinatorError,
  errorBody,
  type RequestContext,
  ResponseStartedError,
  type StepDependencies,
  toCoordinatorError,
  UpstreamError,
} from '@llm-d/pipeline';
import { AnswerHead, logLegRequest, logRelayedAnswer } from './leg-log.ts';
import { noteServer, ownHeaders, servedByHeader } from './leg.ts';

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
}

/** Hop-by-hop headers, and the id that every answer of ours carries anyway. */
const notRelayed = new Set([
  ...['connection', 'keep-alive', 'proxy-authenticate', 'proxy-authorization', 'proxy-connection'],
  ...['te', 'trailer', 'transfer-encoding', 'upgrade', 'x-request-id'],
]);

/** Of a request what its relayed answer needs. */
export type RelayContext = Pick<RequestContext, 'requestId' | 'signal' | 'sink'>;

/**
 * Hands a worker's answer to the client as bytes, holding the worker back while the client reads slowly.
 *
 * @returns whether the worker served; false when it answered `deferStatus`.
 * @throws UpstreamError for an error that is not JSON: a gateway's own text instead of a worker's answer (design.md
 *   decision 16). ResponseStartedError when the answer was an error or broke off after it had started.
 */
export async function relayLeg(
  ctx: RequestContext,
  dependencies: StepDependencies,
  leg: RelayLeg,
): Promise<boolean> {
  const { step, client, path, body, headers = [], deferStatus } = leg;
  const entry = ctx.begin({ name: step, kind: 'leg', phase: 'decode' });
  const own = [...ownHeaders(ctx, dependencies, 'decode', step), ...headers];
  entry.requestBytes = body.byteLength;
  const refusal: { error?: UpstreamError } = {};
  const head = AnswerHead.of(ctx);
  try {
    const request = {
      path,
      headers: ctx.headers.forRelay([...own, ...ctx.observedHeaders(entry)]),
      body,
      signal: ctx.signal,
    };
    logLegRequest(ctx, step, request);
    await relay(ctx, step, client, request, {
      start(status, answered) {
        entry.status = status;
        entry.headersMs = ctx.elapsedMs();
        entry.responseBytes = 0;
        noteServer(entry, pick(answered, (name) => name === servedByHeader)[1]);
        if (status === deferStatus) return false;
        if (status >= 400 && !isJson(answered)) {
          const headers = status === 429 || status === 503 ? pick(answered, overloadNames) : [];
          refusal.error = new UpstreamError(step, status, { headers });
          return false;
        }
        return true;
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
    logRelayedAnswer(ctx, entry, head);
  }
  return entry.status !== deferStatus;
}

/** Looks at a relayed answer on its way. */
export interface RelayWatch {
  /** Returning false keeps the answer from the client. */
  start(status: number, headers: readonly string[]): boolean;
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
  let held: StreamFlow | undefined;
  let relayedStatus = 0;
  try {
    await client.stream(request, {
      start(status, answered, flow) {
        if (!watch.start(status, answered)) return false;
        relayedStatus = status;
        held = flow;
        sink.onDrain(() => flow.resume());
        stream.begin(answered);
        sink.start(status, relayable(answered));
        return true;
      },
      data(chunk) {
        stream.note(chunk);
        watch.data?.(chunk);
        if (!sink.write(chunk)) held?.pause();
      },
    });
  } catch (error) {
    if (sink.isStarted) breakOff(ctx, step, stream, error);
    throw error;
  }
  if (relayedStatus === 0) return;
  sink.end();
  if (relayedStatus >= 400) throw new ResponseStartedError(step, relayedStatus);
}

/** Ends an answer that cannot be completed: an event stream with one error event, everything else with a cut. */
function breakOff(ctx: RelayContext, step: string, stream: StreamEnd, cause: unknown): never {
  const isGone = ctx.signal.reason instanceof ClientGoneError;
  if (stream.isEventStream && !isGone) {
    const error = toCoordinatorError(cause, step);
    const event = JSON.stringify(errorBody(error, ctx.requestId));
    ctx.sink.write(Buffer.from(`${stream.separator}data: ${event}\n\n`));
    ctx.sink.end(true);
  } else ctx.sink.abort();
  if (cause instanceof CoordinatorError) throw cause;
  throw new ResponseStartedError(step, 0, { cause });
}

const relayable = (headers: readonly string[]): string[] =>
  pick(headers, (name) => !notRelayed.has(name));

/** What tells a client when to come back. */
const overloadNames = (name: string): boolean =>
  name === 'retry-after' || name === 'x-should-retry';

const isJson = (headers: readonly string[]): boolean =>
  /^application\/(?:[^;]+\+)?json/i.test(pick(headers, (name) => name === 'content-type')[1] ?? '');

/** The headers whose lower-case name is wanted; names and values in turn. */
function pick(headers: readonly string[], isWanted: (name: string) => boolean): string[] {
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

  begin(headers: readonly string[]): void {
    const values = new Map<string, string>();
    for (let i = 0; i + 1 < headers.length; i += 2) {
      values.set((headers[i] ?? '').toLowerCase(), headers[i + 1] ?? '');
    }
    this.isEventStream =
      /^text\/event-stream/i.test(values.get('content-type') ?? '') &&
      !values.has('content-encoding') &&
      !values.has('content-length');
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
