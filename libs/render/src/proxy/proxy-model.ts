import { toTransportError } from '@llm-d/gateway';
import { JsonError } from '@llm-d/json-document';

import { overloaded, RenderError } from '../errors.ts';
import { RequestFields } from '../chat/request-fields.ts';
import { type ProxyRequest, type ProxySettings, type ProxySink } from './proxy-request.ts';
import { type RewrittenRequest, rewriteRequest } from './rewrite-request.ts';
import { UpstreamAnswer } from './upstream-answer.ts';
import { type UpstreamGroup, type UpstreamObserver } from './upstream-group.ts';
import { type Upstream } from './upstream.ts';

const FORWARDED = ['authorization', 'x-request-id', 'traceparent', 'tracestate'];
const RETRIED_STATUS = new Set([502, 503, 504]);
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
