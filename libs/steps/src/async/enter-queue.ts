import {
  ClientGoneError,
  OutcomeError,
  type QueuedRef,
  type QueuedRequest,
  type QueueRefusal,
  QueueUnavailableError,
  type RequestContext,
  type RequestQueue,
  ResponseStartedError,
  type Submitted,
  type WaitEnd,
  type WholeAnswer,
} from '@llm-d/pipeline';
import { outcomeAnswer, pendingAnswer, unknownRequest } from './answers.ts';
import { AsyncError } from './async-error.ts';
import { type AsyncHeaderNames, readIdempotencyKey, readTimeoutSeconds } from './async-headers.ts';
import { headerValues } from './header-values.ts';
import { type AsyncBrokerParams } from './params.ts';
import { isIdReplaced, replacedHeader } from './request-id.ts';
import { type Placement } from './routes.ts';
import { clampTimeoutMs, type TimeoutBounds } from './timeouts.ts';

/** What the queued modes work with. */
export interface EnterOptions {
  readonly queue: RequestQueue;
  readonly mode: 'enqueue' | 'wait';
  readonly tenant: string;
  readonly placement: Placement;
  readonly params: Pick<
    AsyncBrokerParams,
    'compat_status' | 'forward_headers' | 'wait_cap_seconds' | 'wait_overflow'
  >;
  readonly bounds: TimeoutBounds;
  readonly names: AsyncHeaderNames;
}

const step = 'async-broker';

/** Queues a request and answers it: at once with its id, or when it has a result. */
export async function enterQueue(ctx: RequestContext, options: EnterOptions): Promise<void> {
  nameAnswer(ctx, ctx.requestId);
  const { ref, mode, timeoutMs } = await take(ctx, options);
  if (mode === 'enqueue') send(ctx, pendingAnswer(ref.id));
  else await hold(ctx, ref, timeoutMs, options);
}

/** A request that is in the queue. */
interface Taken {
  readonly ref: QueuedRef;
  readonly mode: 'enqueue' | 'wait';
  readonly timeoutMs: number;
}

/** Apart from the hold, which would keep the body. */
async function take(ctx: RequestContext, options: EnterOptions): Promise<Taken> {
  const request = toQueued(ctx, options);
  const submitted = await submit(ctx, request, options);
  nameAnswer(ctx, submitted.id);
  return accepted(submitted, request);
}

function toQueued(ctx: RequestContext, options: EnterOptions): QueuedRequest {
  const { rawHeaders } = ctx;
  const { mode, tenant, placement, params, bounds, names } = options;
  const [contentType = 'application/json'] = headerValues(rawHeaders, ['content-type']);
  const traceparent = traceparentOf(ctx);
  const idempotencyKey = readIdempotencyKey(rawHeaders);
  return {
    ...{ tenant, id: ctx.requestId, mode, model: ctx.model, path: ctx.path, contentType },
    ...(idempotencyKey !== undefined && { idempotencyKey }),
    ...{ lane: placement.lane, tier: placement.tier },
    // No step has touched the body: these are the client's bytes.
    body: ctx.body.toRaw().toBytes(),
    forwardedHeaders: rawHeaders.flatMap((name, i) =>
      i % 2 === 0 && params.forward_headers.includes(name.toLowerCase())
        ? [name.toLowerCase(), rawHeaders[i + 1] ?? '']
        : [],
    ),
    ...(traceparent !== undefined && { traceparent }),
    timeoutMs: clampTimeoutMs(readTimeoutSeconds(rawHeaders, names), bounds),
  };
}

/** The dispatch joins the trace of this request: below the step's own span where there is one, else as the client said. */
function traceparentOf(ctx: RequestContext): string | undefined {
  const own = ctx.timeline.at(-1);
  const observed = own ? ctx.observedHeaders(own) : [];
  const [traceparent] = headerValues([...observed, ...ctx.rawHeaders], ['traceparent']);
  return traceparent;
}

async function submit(
  ctx: RequestContext,
  request: QueuedRequest,
  { queue, params }: EnterOptions,
): Promise<Submitted & { mode?: 'enqueue' }> {
  try {
    const submitted = await queue.submit(request);
    const isFull = submitted.kind === 'refused' && submitted.reason === 'held-waits';
    if (!isFull || params.wait_overflow === 'refuse') return submitted;
    // Nobody holds, so it is an enqueue in every respect: a lost connection cancels nothing.
    return { ...(await queue.submit({ ...request, mode: 'enqueue' })), mode: 'enqueue' };
  } catch (error) {
    if (!(error instanceof QueueUnavailableError)) throw error;
    // It may have been taken all the same: the client fetches or repeats by this id.
    if (error.id !== undefined) nameAnswer(ctx, error.id);
    throw enqueueFailed(error.message, error.retryAfterSeconds, error.cause);
  }
}

/** What a request was taken as; throws what keeps it out. */
function accepted(submitted: Submitted & { mode?: 'enqueue' }, request: QueuedRequest): Taken {
  const { tenant, timeoutMs } = request;
  switch (submitted.kind) {
    case 'id-conflict':
      throw new AsyncError('the id stands for another request: body, path or model differ', {
        status: 409,
        code: 'ID_CONFLICT',
      });
    case 'key-conflict':
      throw new AsyncError(
        'the idempotency-key stands for another request: body, path or model differ',
        { status: 422, code: 'IDEMPOTENCY_KEY_REUSED' },
      );
    case 'refused':
      throw refusal(submitted.reason, submitted.retryAfterSeconds);
    default: {
      const { id, generation } = submitted;
      const mode = submitted.mode ?? request.mode;
      return { ref: { tenant, id, generation }, mode, timeoutMs };
    }
  }
}

const fullCodes = {
  'lane-backlog': 'BACKLOG_FULL',
  'tenant-backlog': 'TENANT_BACKLOG_FULL',
  'held-waits': 'WAITS_FULL',
  'body-bytes': 'BODY_BYTES_FULL',
} as const satisfies Record<Exclude<QueueRefusal, 'redis-memory'>, string>;

const fullTexts = {
  'lane-backlog': 'the queue holds as many requests as it may',
  'tenant-backlog': 'the tenant has as many open requests as it may',
  'held-waits': 'as many answers as may be held are held',
  'body-bytes': 'as many bodies as may be are on their way into the queue',
};

function refusal(reason: QueueRefusal, retryAfterSeconds: number): AsyncError {
  if (reason === 'redis-memory') return enqueueFailed('the queue is full', retryAfterSeconds);
  return new AsyncError(`${fullTexts[reason]}, try again later`, {
    ...{ status: 429, code: fullCodes[reason], retryAfterSeconds },
  });
}

function enqueueFailed(message: string, retryAfterSeconds: number, cause?: unknown): AsyncError {
  return new AsyncError(message, {
    ...{ status: 503, type: 'api_error', retryAfterSeconds, cause },
    code: 'ENQUEUE_FAILED',
  });
}

/** Says by which id the request goes: a retry may have found one that goes by another than its own. */
function nameAnswer(ctx: RequestContext, id: string): void {
  ctx.requestId = id;
  ctx.sink.identify?.(id, isIdReplaced(ctx.rawHeaders, id) ? [replacedHeader, '1'] : []);
}

async function hold(
  ctx: RequestContext,
  ref: QueuedRef,
  timeoutMs: number,
  { queue, params }: EnterOptions,
): Promise<void> {
  ctx.letGo();
  const capMs = params.wait_cap_seconds * 1_000;
  const end = await waitFor(queue, ref, {
    timeoutMs,
    ...(capMs > 0 && { capMs }),
    signal: ctx.signal,
  });
  switch (end.kind) {
    case 'ready':
      await deliver(ctx, end);
      return;
    case 'pending':
    case 'closing':
      send(ctx, pendingAnswer(ref.id));
      return;
    case 'timed-out':
      throw new OutcomeError('DEADLINE_EXCEEDED', 'the deadline passed before there was a result');
    case 'left':
      throw new ClientGoneError();
    case 'unknown':
      throw unknownRequest(params);
  }
}

async function waitFor(
  queue: RequestQueue,
  ref: QueuedRef,
  options: Parameters<RequestQueue['wait']>[1],
): Promise<WaitEnd> {
  try {
    return await queue.wait(ref, options);
  } catch (error) {
    if (!(error instanceof QueueUnavailableError)) throw error;
    throw new AsyncError(error.message, {
      ...{ status: 503, type: 'api_error', cause: error.cause },
      code: 'LOOKUP_FAILED',
      retryAfterSeconds: error.retryAfterSeconds,
    });
  }
}

/** Writes a result; only one that the client got whole is given up. */
async function deliver(
  ctx: RequestContext,
  end: Extract<WaitEnd, { kind: 'ready' }>,
): Promise<void> {
  let isDelivered = false;
  try {
    const answer = outcomeAnswer(end.outcome);
    send(ctx, answer);
    isDelivered = (await ctx.sink.sent?.()) ?? true;
    if (!isDelivered) throw new ClientGoneError();
    if (answer.status >= 400) throw new ResponseStartedError(step, answer.status);
  } finally {
    // The result stays for its whole life then, which harms nobody.
    await end.settle(isDelivered).catch((error: unknown) => {
      ctx.log.warn({ err: error }, 'the delivery of a result could not be noted');
    });
  }
}

function send({ sink }: RequestContext, answer: WholeAnswer): void {
  const { status, headers, body = new Uint8Array() } = answer;
  const isEventStream = headers.some((text) => /^text\/event-stream\b/i.test(text));
  const hasBegun = sink.keepAlive === 'begun';
  sink.start(status, headers);
  if (body.length > 0) sink.write(hasBegun && !isEventStream ? toEvent(body) : body);
  sink.end();
}

/** For a client whose event stream has begun with comments: nothing but events can follow. */
function toEvent(body: Uint8Array): Uint8Array {
  const lines = Buffer.from(body).toString('utf8').split(/\r?\n/);
  return Buffer.from(`${lines.map((line) => `data: ${line}`).join('\n')}\n\n`);
}
