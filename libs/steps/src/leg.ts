import {
  type Phase,
  requestIdHeader,
  revisionDecisionIdHeader,
  type UpstreamAnswer,
  type UpstreamClient,
} from '@llm-d/gateway';
import { JsonError, type JsonRaw, type JsonSpan, parseJson } from '@llm-d/json-document';
import {
  BadUpstreamAnswerError,
  type ForwardedHeaders,
  type RequestContext,
  type StepDependencies,
  type TimelineEntry,
  UpstreamError,
} from '@llm-d/pipeline';
import { droppedReasonHeader, gatewayFault } from './gateway-fault.ts';
import { logLegAnswer, logLegRequest } from './leg-log.ts';
import { relayedError } from './relayed-error.ts';

/** One call whose answer is read here. */
export interface ReadLeg {
  /** Name for errors: the step, with an index where there are several, for example `encode[1]`. */
  readonly name: string;
  readonly step: string;
  readonly index?: number;
  readonly client: UpstreamClient;
  readonly path: string;
  readonly body: JsonRaw;
  /** Absent on calls that do not go through the gateway. */
  readonly phase?: Phase;
  /** Ends this leg earlier than the request. */
  readonly signal?: AbortSignal;
  /** Headers of this leg alone; names and values in turn. */
  readonly headers?: readonly string[];
  /** What passes of the client's headers, where that is less than on other legs. */
  readonly clientHeaders?: ForwardedHeaders;
  /** Appended to the request id on every wire, for legs that must not share it. */
  readonly idSuffix?: string;
  /** Statuses that count as success; 200 alone when absent. */
  readonly accepted?: readonly number[];
  /** Called when the leg is on the wire. */
  readonly onSent?: (() => void) | undefined;
}

/** A leg's answer: its JSON value, and the headers it came with. */
export interface LegAnswer {
  readonly value: JsonSpan;
  readonly headers: UpstreamAnswer['headers'];
}

/** Headers that a leg adds to those of the client; names and values in turn. `leg` is the suffix of an id of its own. */
export function ownHeaders(
  ctx: RequestContext,
  { wire }: StepDependencies,
  phase: Phase | undefined,
  leg: string,
  hasOwnId = false,
): string[] {
  const prompt = ctx.promptIndex === undefined ? '' : `-${ctx.promptIndex}`;
  const isUnique = hasOwnId || (wire.legRequestId === 'unique' && phase !== undefined);
  const id = isUnique ? `${ctx.requestId}-${leg}${prompt}` : ctx.requestId;
  const own = [
    ...[revisionDecisionIdHeader, ctx.revisionDecisionId],
    ...['content-type', 'application/json', requestIdHeader, id],
  ];
  if (phase) own.push(wire.phaseHeader, phase);
  for (const [name, value] of ctx.captured) own.push(name, value);
  return own;
}

/**
 * Sends a leg and reads its answer as JSON.
 *
 * @throws UpstreamError unless the status is 200, BadUpstreamAnswerError when the answer is not JSON.
 */
export function readLeg(
  ctx: RequestContext,
  dependencies: StepDependencies,
  leg: ReadLeg,
): Promise<LegAnswer> {
  return callLeg(ctx, dependencies, leg, ({ headers, body }) => ({
    value: parseAnswer(leg.name, body),
    headers,
  }));
}

/**
 * Sends a leg and has `take` make something of its answer; what `take` throws counts as the leg's failure.
 *
 * @throws UpstreamError unless the status is accepted.
 */
export async function callLeg<T>(
  ctx: RequestContext,
  dependencies: StepDependencies,
  leg: ReadLeg,
  take: (answer: UpstreamAnswer) => T,
): Promise<T> {
  const { name, step, index, client, path, body, phase, signal = ctx.signal, onSent } = leg;
  const { headers = [], clientHeaders = ctx.headers, idSuffix, accepted = successOnly } = leg;
  const entry = ctx.begin({ name: step, kind: 'leg', index, phase });
  const suffix = idSuffix ?? (index === undefined ? step : `${step}-${index}`);
  const hasOwnId = idSuffix !== undefined;
  const own = [...ownHeaders(ctx, dependencies, phase, suffix, hasOwnId), ...headers];
  entry.requestBytes = body.byteLength;
  try {
    const request = {
      path,
      headers: clientHeaders.forReading([...own, ...ctx.observedHeaders(entry)]),
      body,
    };
    logLegRequest(ctx, name, request);
    const answer = await client.call({
      ...request,
      signal,
      counts: entry,
      onSent,
    });
    const { status, body: answered } = answer;
    logLegAnswer(ctx, name, { status, bodyBytes: answered.length, body: answered });
    entry.status = answer.status;
    entry.headersMs = ctx.elapsedMs() - (performance.now() - answer.headersAt);
    entry.responseBytes = answer.body.length;
    noteServer(entry, answer.headers[servedByHeader]);
    if (!accepted.includes(answer.status)) throw toUpstreamError(name, answer, dependencies);
    const taken = take(answer);
    ctx.finish(entry);
    return taken;
  } catch (error) {
    ctx.finish(entry, error);
    throw error;
  } finally {
    if (entry.retries !== undefined) noteRetry(ctx, name);
  }
}

const successOnly = [200];

/** Tells that a leg was sent twice. */
export function noteRetry(ctx: RequestContext, leg: string): void {
  ctx.log.info({ leg }, 'sent again: the peer was closing the idle connection');
}

/** Header in which an endpoint picker tells the client's side which pod answered. */
export const servedByHeader = 'x-gateway-destination-endpoint-served';

/** Keeps the pod that an answer names. */
export function noteServer(entry: TimelineEntry, value: string | string[] | undefined): void {
  if (typeof value === 'string') entry.servedBy = value;
}

/** Keeps the values of `pipeline.forward_response_headers` for later legs; of several answers the most frequent value. */
export function captureHeaders(
  ctx: RequestContext,
  { forwardResponseHeaders }: StepDependencies,
  answers: readonly Pick<LegAnswer, 'headers'>[],
): void {
  for (const name of forwardResponseHeaders) {
    const counts = new Map<string, number>();
    for (const { headers } of answers) {
      const given = headers[name];
      const value = Array.isArray(given) ? given[0] : given;
      if (value) counts.set(value, (counts.get(value) ?? 0) + 1);
    }
    if (counts.size === 0) continue;
    const most = Math.max(...counts.values());
    const winner = [...counts].find(([, count]) => count === most);
    if (winner) ctx.captured.set(name, winner[0]);
  }
}

function toUpstreamError(
  leg: string,
  { status, headers, body }: UpstreamAnswer,
  { upstreamErrors }: StepDependencies,
): UpstreamError {
  const isOverload = status === 429 || status === 503;
  const passed = ['retry-after', 'x-should-retry'].flatMap((name) => {
    const value = headers[name];
    return isOverload && typeof value === 'string' ? [name, value] : [];
  });
  const relayed = upstreamErrors === 'relay' ? relayedError(status, body) : undefined;
  const fault = gatewayFault(status, headers[droppedReasonHeader], body.length === 0);
  return new UpstreamError(leg, status, {
    headers: passed,
    gatewayFault: fault,
    ...(relayed ? { relayed } : {}),
  });
}

/** @throws BadUpstreamAnswerError unless the answer is an object. */
export function objectAnswer(leg: string, { value }: LegAnswer): JsonSpan {
  if (value.kind === 'object') return value;
  throw new BadUpstreamAnswerError(leg, 'the answer is not a JSON object');
}

function parseAnswer(leg: string, body: Buffer): JsonSpan {
  try {
    return parseJson(body);
  } catch (cause) {
    if (!(cause instanceof JsonError)) throw cause;
    throw new BadUpstreamAnswerError(leg, 'the answer is not valid JSON', { cause });
  }
}
