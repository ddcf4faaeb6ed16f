import {
  type AnswerReceiver,
  type StreamFlow,
  type StreamRequest,
  type UpstreamClient,
} from '@llm-d/gateway';
import {
  BadUpstreamAnswerError,
  ClientGoneError,
  CoordinatorError,
  errorEvent,
  type RequestContext,
  type ResponseSink,
  ResponseStartedError,
  toCoordinatorError,
  UpstreamError,
} from '@llm-d/pipeline';
import { droppedReasonHeader, gatewayFault } from './gateway-fault.ts';
import { pick, valueOf } from './header-list.ts';
import { HeldAnswer } from './held-answer.ts';
import { StreamEnd } from './stream-end.ts';

/** Hop-by-hop headers, and the id that every answer of ours carries anyway. */
const notRelayed = new Set([
  ...['connection', 'keep-alive', 'proxy-authenticate', 'proxy-authorization', 'proxy-connection'],
  ...['te', 'trailer', 'transfer-encoding', 'upgrade', 'x-request-id'],
]);

/** Of a request what its relayed answer needs. */
export type RelayContext = Pick<RequestContext, 'requestId' | 'signal' | 'sink'>;

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
export function relay(
  ctx: RelayContext,
  step: string,
  client: UpstreamClient,
  request: StreamRequest,
  watch: RelayWatch = { start: () => true },
): Promise<void> {
  const relayed = new RelayedAnswer(ctx, step, watch);
  return relayed.finish(client.stream(request, relayed));
}

/** An answer on its way from an upstream to the client. */
class RelayedAnswer implements AnswerReceiver {
  readonly #ctx: RelayContext;
  readonly #step: string;
  readonly #watch: RelayWatch;
  readonly #stream = new StreamEnd();
  #answer: ResponseSink | HeldAnswer;
  #flow: StreamFlow | undefined;
  /** 0 as long as the client gets nothing of it. */
  #status = 0;
  #refusal: CoordinatorError | undefined;

  constructor(ctx: RelayContext, step: string, watch: RelayWatch) {
    this.#ctx = ctx;
    this.#step = step;
    this.#watch = watch;
    this.#answer = ctx.sink;
  }

  start(status: number, headers: readonly string[], flow: StreamFlow): boolean {
    const { sink } = this.#ctx;
    const verdict = this.#watch.start(status, headers);
    if (verdict === false) return false;
    const hasBegun = sink.keepAlive === 'begun';
    this.#stream.begin(headers, hasBegun);
    if (hasBegun && (status !== 200 || !this.#stream.isEventStream)) {
      this.#refusal = noStream(this.#step, status, headers);
      return false;
    }
    this.#status = status;
    this.#flow = flow;
    sink.onDrain(() => flow.resume());
    const passed = relayable(headers);
    if (verdict === 'hold') this.#answer = new HeldAnswer(sink, status, passed);
    else sink.start(status, passed);
    return true;
  }

  data(chunk: Uint8Array): void {
    this.#stream.note(chunk);
    this.#watch.data?.(chunk);
    if (!this.#answer.write(chunk)) this.#flow?.pause();
  }

  /** Ends the client's answer when the call is over. A method, since the frame of the call would hold what was sent. */
  async finish(call: Promise<void>): Promise<void> {
    try {
      await call;
    } catch (error) {
      const { sink } = this.#ctx;
      if (this.#status !== 0 && sink.isStarted) {
        breakOff(this.#ctx, this.#step, this.#stream, error);
      }
      throw error;
    }
    if (this.#refusal) throw this.#refusal;
    if (this.#status === 0) return;
    this.#answer.end();
    if (this.#status >= 400) throw new ResponseStartedError(this.#step, this.#status);
  }
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
export function refusedAnswer(
  step: string,
  status: number,
  headers: readonly string[],
): UpstreamError {
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
