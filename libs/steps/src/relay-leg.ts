import { type UpstreamClient } from '@llm-d/gateway';
import { type JsonRaw } from '@llm-d/json-document';
import {
  type ForwardedHeaders,
  type RequestContext,
  type StepDependencies,
  type TimelineEntry,
  type UpstreamError,
} from '@llm-d/pipeline';
import { isJson, valueOf } from './header-list.ts';
import { AnswerHead, logLegRequest, logRelayedAnswer } from './leg-log.ts';
import { noteRetry, noteServer, ownHeaders, servedByHeader } from './leg.ts';
import { refusedAnswer, relay } from './relay.ts';

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

/**
 * Hands a worker's answer to the client as bytes, holding the worker back while the client reads slowly. JSON for a
 * request that is not streamed waits until it is whole, up to `maxHeldBytes`: what breaks off before is an error.
 *
 * @returns whether the worker served; false when it answered with a status that the leg defers.
 * @throws UpstreamError for an error that is not JSON: a gateway's own text instead of a worker's answer (design.md
 *   decision 16). ResponseStartedError when the answer was an error or broke off after it had started.
 */
export function relayLeg(
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
  const relayed = relay(ctx, step, client, request, {
    start(status, answered) {
      entry.status = status;
      entry.headersMs = ctx.elapsedMs();
      entry.responseBytes = 0;
      noteServer(entry, valueOf(answered, servedByHeader));
      isDeferred = status === deferStatus || (defersFailures && (status === 429 || status >= 500));
      if (isDeferred) return false;
      if (status >= 400 && !isJson(answered)) {
        refusal.error = refusedAnswer(step, status, answered);
        return false;
      }
      // A hand-off that was refused may be given back yet, by a leg with the prompt.
      if (status === 200) ctx.dropPrompt();
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
  return finishLeg(ctx, entry, head, relayed, () => {
    if (refusal.error) throw refusal.error;
    return !isDeferred;
  });
}

/** Waits for a leg, without holding what was sent as a frame of the call would. */
async function finishLeg(
  ctx: RequestContext,
  entry: TimelineEntry,
  head: AnswerHead | undefined,
  relayed: Promise<void>,
  isServed: () => boolean,
): Promise<boolean> {
  try {
    await relayed;
    const result = isServed();
    ctx.finish(entry);
    return result;
  } catch (error) {
    ctx.finish(entry, error);
    throw error;
  } finally {
    if (entry.retries !== undefined) noteRetry(ctx, entry.name);
    logRelayedAnswer(ctx, entry, head);
  }
}
