import {
  type AnswerReceiver,
  type StreamFlow,
  toTransportError,
  TransportError,
} from '@llm-d/gateway';
import { JsonError } from '@llm-d/json-document';

import { overloaded, RenderError } from '../errors.ts';
import { RequestFields } from '../chat/request-fields.ts';
import { normaliseAnswer, unsupportedAnswer } from './normalise-answer.ts';
import { RenameModel } from './rename-model.ts';
import { type RewrittenRequest, rewriteRequest } from './rewrite-request.ts';
import { type UpstreamGroup, type UpstreamObserver } from './upstream-group.ts';
import { type Upstream } from './upstream.ts';

/** How the answers and requests of one model are treated. */
export interface ProxySettings {
  /** Name of the model at the upstreams; undefined leaves that of the caller. */
  readonly model: string | undefined;
  readonly withoutToolChoice: boolean;
  /** `light` checks the first byte of an answer and hands the rest on, `full` reads and repairs it, `off` does neither. */
  readonly normalise: 'off' | 'light' | 'full';
  /** Bytes of an answer; a longer one is 502, or cut when it has begun. */
  readonly maxAnswerBytes: number;
}

/** A request for an upstream. */
export interface ProxyRequest {
  readonly path: string;
  readonly body: Buffer;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly signal: AbortSignal;
}

/** Where an answer goes; nothing is sent before `start`. */
export interface ProxySink {
  start(status: number, headers: readonly string[]): void;
  /** False when the caller takes its time: hold back until `onDrain`. */
  write(chunk: Uint8Array): boolean;
  onDrain(callback: () => void): void;
  end(): void;
}

const FORWARDED = ['authorization', 'x-request-id', 'traceparent', 'tracestate'];
const LIST_PATH = '/v1/completions/render';
const RETRIED_STATUS = new Set([502, 503, 504]);
/** An upstream's refusal that is handed on. */
const MAX_REFUSAL_BYTES = 65_536;
const TEXT_WEIGHT = 1;
/** An upstream processes the media of one request at a time. */
const MEDIA_WEIGHT = 8;

/** Renders by asking one of several vLLM render servers. */
export class ProxyModel {
  private readonly group: UpstreamGroup;
  private readonly settings: ProxySettings;
  private readonly observer: UpstreamObserver;

  constructor(group: UpstreamGroup, settings: ProxySettings, observer: UpstreamObserver) {
    this.group = group;
    this.settings = settings;
    this.observer = observer;
  }

  /**
   * Answers a request. Rejects with a `RenderError` while nothing was sent to `sink`: what the upstream refuses is
   * answered, not thrown. A failure before the first byte is tried once more on another upstream.
   */
  async answer(request: ProxyRequest, sink: ProxySink): Promise<void> {
    const rewritten = rewrite(request.body, this.settings);
    const first = this.choose(request.path);
    const failure = await this.attempt(first, request, rewritten, sink);
    if (failure === undefined) return;
    const second = this.group.choose(request.path, first);
    if (second === undefined) throw failure.error;
    this.observer.retried();
    const again = await this.attempt(second, request, rewritten, sink);
    if (again !== undefined) throw again.error;
  }

  private choose(path: string): Upstream {
    const upstream = this.group.choose(path);
    if (upstream !== undefined) return upstream;
    if (!this.group.anyHas(path)) throw missingRoute(path);
    throw overloaded('No render server is available.');
  }

  /** Undefined when answered, the failure when another upstream may be tried. Throws what must not be tried again. */
  private async attempt(
    upstream: Upstream,
    request: ProxyRequest,
    rewritten: RewrittenRequest,
    sink: ProxySink,
  ): Promise<{ readonly error: RenderError } | undefined> {
    const weight = rewritten.hasMedia ? MEDIA_WEIGHT : TEXT_WEIGHT;
    const answer = new UpstreamAnswer(upstream, request, rewritten, sink, this.settings);
    upstream.outstanding += weight;
    try {
      await upstream.client.stream(
        {
          path: request.path,
          headers: forwardedHeaders(request),
          body: rewritten,
          signal: AbortSignal.any([request.signal, answer.stopped]),
          isRepeatable: true,
        },
        answer,
      );
      answer.finish();
    } catch (cause) {
      if (request.signal.aborted) {
        this.observer.called(upstream.index, 'cancelled');
        throw cause;
      }
      this.fail(upstream);
      const error = cause instanceof RenderError ? cause : toRenderError(cause);
      // A refusal of ours concerns the answer: another upstream of the same build would give the same.
      if (answer.hasStarted || cause instanceof RenderError) throw error;
      return { error };
    } finally {
      upstream.outstanding -= weight;
    }
    return this.outcome(upstream, answer, request.path);
  }

  private outcome(
    upstream: Upstream,
    { status, lacksRoute }: UpstreamAnswer,
    path: string,
  ): { readonly error: RenderError } | undefined {
    if (status >= 500) {
      this.fail(upstream);
      const error = upstreamError(`The render server answered with status ${status}.`);
      if (RETRIED_STATUS.has(status)) return { error };
      throw error;
    }
    upstream.succeeded();
    if (lacksRoute) {
      upstream.lacks(path);
      this.observer.called(upstream.index, 'refused');
      return { error: missingRoute(path) };
    }
    this.observer.called(upstream.index, status === 200 ? 'served' : 'refused');
    return undefined;
  }

  private fail(upstream: Upstream): void {
    this.observer.called(upstream.index, 'failed');
    if (this.group.failed(upstream)) this.observer.ejected(upstream.index);
  }
}

/** Takes the answer of one upstream, and hands on what may be handed on. */
class UpstreamAnswer implements AnswerReceiver {
  status = 0;
  /** True for a 404 or 405 that is not about a model. */
  lacksRoute = false;
  hasStarted = false;
  private readonly upstream: Upstream;
  private readonly request: ProxyRequest;
  private readonly rewritten: RewrittenRequest;
  private readonly sink: ProxySink;
  private readonly settings: ProxySettings;
  private readonly rename: RenameModel | undefined;
  private flow: StreamFlow | undefined;
  private headers: readonly string[] = [];
  /** What is read before it is handed on: refusals, and all of an answer that is normalised. */
  private held: Uint8Array[] = [];
  private readonly stop = new AbortController();
  private bytes = 0;

  constructor(
    upstream: Upstream,
    request: ProxyRequest,
    rewritten: RewrittenRequest,
    sink: ProxySink,
    settings: ProxySettings,
  ) {
    this.upstream = upstream;
    this.request = request;
    this.rewritten = rewritten;
    this.sink = sink;
    this.settings = settings;
    const { callersModel } = rewritten;
    this.rename = callersModel === undefined ? undefined : new RenameModel(callersModel);
  }

  /** Aborts, with the error as its reason, when the answer cannot be handed on. */
  get stopped(): AbortSignal {
    return this.stop.signal;
  }

  start(status: number, headers: readonly string[], flow: StreamFlow): boolean {
    this.status = status;
    this.headers = headers;
    this.flow = flow;
    return status < 500;
  }

  data(chunk: Uint8Array): void {
    try {
      this.take(chunk);
    } catch (error) {
      this.stop.abort(error);
    }
  }

  private take(chunk: Uint8Array): void {
    this.bytes += chunk.length;
    if (this.status !== 200) {
      if (this.bytes <= MAX_REFUSAL_BYTES) this.held.push(chunk);
      return;
    }
    if (this.bytes > this.settings.maxAnswerBytes) throw new TransportError('answer-too-large');
    if (this.settings.normalise === 'full' && isRender(this.request.path)) {
      this.held.push(chunk);
      return;
    }
    if (!this.hasStarted) {
      if (this.settings.normalise === 'light') this.checkStart(chunk);
      this.begin(200, this.rename === undefined ? this.length() : []);
    }
    for (const piece of this.rename?.push(chunk) ?? [chunk]) {
      if (!this.sink.write(piece)) this.flow?.pause();
    }
  }

  /** The whole answer has come. */
  finish(): void {
    if (this.status >= 500) return;
    if (this.status === 200 && (this.hasStarted || this.held.length > 0)) {
      if (!this.hasStarted) this.sendNormalised();
      this.sink.end();
      return;
    }
    if (this.status === 200) throw unsupportedAnswer('no body');
    const body = Buffer.concat(this.held);
    this.lacksRoute = [404, 405].includes(this.status) && !isModelError(body);
    if (this.lacksRoute) return;
    if (this.status < 400) throw unsupportedAnswer(`status ${this.status}`);
    if (this.bytes > MAX_REFUSAL_BYTES) throw unsupportedAnswer('a refusal of unusual length');
    this.begin(this.status, ['content-length', String(body.length)]);
    this.sink.write(body);
    this.sink.end();
  }

  private sendNormalised(): void {
    const whole = Buffer.concat(this.held);
    this.held = [];
    const chunks = normaliseAnswer(whole, {
      isList: this.request.path === LIST_PATH,
      callersModel: this.rewritten.callersModel,
      isCheap: this.rewritten.isCheap,
    });
    const length = chunks.reduce((sum, chunk) => sum + chunk.byteLength, 0);
    this.begin(200, ['content-length', String(length)]);
    for (const chunk of chunks) this.sink.write(chunk);
  }

  private begin(status: number, headers: readonly string[]): void {
    this.hasStarted = true;
    this.sink.onDrain(() => this.flow?.resume());
    this.sink.start(status, [
      ...['content-type', this.header('content-type') ?? 'application/json', ...headers],
      ...['x-render-mode', 'proxy', 'x-render-upstream', String(this.upstream.index)],
      ...['x-render-cache', 'off'],
    ]);
  }

  /** Status and type are right, but an old server answers other things on the same route. */
  private checkStart(chunk: Uint8Array): void {
    const type = this.header('content-type') ?? '';
    if (!/^application\/json\b/i.test(type)) throw unsupportedAnswer('another content type');
    if (!isRender(this.request.path)) return;
    const first = /\S/.exec(Buffer.from(chunk.subarray(0, 64)).toString('latin1'))?.[0];
    const wanted = this.request.path === LIST_PATH ? '[' : '{';
    if (first !== wanted) throw unsupportedAnswer(`it does not start with ${wanted}`);
  }

  private length(): readonly string[] {
    const length = this.header('content-length');
    return length === undefined ? [] : ['content-length', length];
  }

  private header(name: string): string | undefined {
    const at = this.headers.findIndex(
      (text, index) => index % 2 === 0 && text.toLowerCase() === name,
    );
    return at === -1 ? undefined : this.headers[at + 1];
  }
}

function rewrite(body: Buffer, settings: ProxySettings): RewrittenRequest {
  try {
    return rewriteRequest(body, settings);
  } catch (cause) {
    if (!(cause instanceof JsonError)) throw cause;
    // The embedded parser has vLLM's words for what is wrong.
    RequestFields.parse(body);
    throw new RenderError(400, 'Bad Request', cause.message, 'body', { cause });
  }
}

function forwardedHeaders({ headers }: ProxyRequest): string[] {
  const forwarded = FORWARDED.flatMap((name) => {
    const value = headers[name];
    return typeof value === 'string' ? [name, value] : [];
  });
  return ['content-type', 'application/json', ...forwarded];
}

function isRender(path: string): boolean {
  return path.endsWith('/render');
}

/** A 404 with vLLM's error object is about the model; one without says that there is no such route. */
function isModelError(body: Buffer): boolean {
  try {
    const answer = JSON.parse(body.toString()) as { error?: unknown; object?: unknown } | null;
    return answer?.error !== undefined || answer?.object === 'error';
  } catch {
    return false;
  }
}

function missingRoute(path: string): RenderError {
  return new RenderError(
    501,
    'NotImplementedError',
    `The render servers do not have ${path}; \`vllm launch render\` has it, \`vllm serve\` with --enable-scale-out.`,
  );
}

function upstreamError(message: string): RenderError {
  return new RenderError(502, 'UpstreamError', message);
}

function toRenderError(cause: unknown): RenderError {
  const { fault, message } = toTransportError(cause);
  return fault === 'timeout'
    ? new RenderError(504, 'TimeoutError', 'The render server did not answer in time.', null, {
        cause,
      })
    : new RenderError(502, 'UpstreamError', `The render server failed: ${message}.`, null, {
        cause,
      });
}
