import { type Api } from '@llm-d/gateway';
import { JsonDocument, type JsonRaw, type JsonSpan } from '@llm-d/json-document';
import { type ForwardedHeaders } from './forwarded-headers.ts';
import { AnswerTail } from './answer-tail.ts';
import { type Handoff } from './handoff.ts';
import { type Logger } from './logger.ts';
import { type RequestObserver, type TimelineEntry } from './timeline.ts';
import { type ResponseSink } from './response-sink.ts';
import { type TokenIds } from './token-ids.ts';

/** How a request is to be served: live under the tenant's quota, queued, or queued and waited for. */
export type AsyncMode = 'passthrough' | 'enqueue' | 'wait';

/** The kinds of media that a request may hold. */
export type Modality = 'image' | 'video' | 'audio';

/** The run of tokens that stands for one media item. */
export interface Placeholder {
  /** Index of the first token. */
  readonly offset: number;
  /** Number of tokens. */
  readonly length: number;
}

/** One media item of a request, in document order. */
export interface MediaEntry {
  readonly modality: Modality;
  /** The client's own part; undefined where the request came as tokens. */
  readonly part?: JsonSpan;
  /** Content hash from render, the key of EC transfers. */
  hash?: string;
  /** Preprocessed tensors as render wrote them, a string with its quotes; undefined = the worker takes them from its cache. */
  kwargsData?: JsonRaw;
  placeholder?: Placeholder;
}

/** What a request starts with. */
export interface RequestInit {
  readonly requestId: string;
  readonly revisionDecisionId: string;
  /** The client's path without query. */
  readonly path: string;
  readonly api: Api;
  readonly headers: ForwardedHeaders;
  readonly body: JsonDocument;
  readonly signal: AbortSignal;
  readonly sink: ResponseSink;
  readonly log: Logger;
  /** The client's own headers, names and values in turn; empty where only what passes on is known. */
  readonly rawHeaders?: readonly string[];
  /** What the request takes up of the limits on requests that are served. */
  readonly place?: { release(): void } | undefined;
  /** `performance.now()` when the request arrived. */
  readonly arrivedAt?: number;
  /** Time that the request waited for its turn, within `elapsedMs`. */
  readonly queueMs?: number | undefined;
  /** Hear of every step and leg. */
  readonly observers?: readonly RequestObserver[];
  /** Position of the prompt in a batch. */
  readonly promptIndex?: number;
}

/** What a prompt of a batch has for itself. */
export type PromptInit = Pick<RequestInit, 'body' | 'signal' | 'sink'>;

const noBody = JsonDocument.of({});

/** Everything that is known about one request; lives as long as the request. */
export class RequestContext {
  /** Changes only where a request turns out to be one that was queued before. */
  requestId: string;
  /** Groups the legs of this request for the endpoint picker. */
  readonly revisionDecisionId: string;
  readonly path: string;
  readonly api: Api;
  readonly rawHeaders: readonly string[];
  /** Aborted when the client leaves or the time for the answer is over. */
  readonly signal: AbortSignal;
  readonly sink: ResponseSink;
  readonly log: Logger;
  /** Empty when the body has no usable `model`. */
  readonly model: string;
  readonly isStreaming: boolean;
  /** Time that the request waited for its turn before its body was read. */
  readonly queueMs: number;
  /** Position of the prompt in a batch; undefined for a request with one prompt. */
  readonly promptIndex: number | undefined;

  /** What the legs carry of the client's headers. */
  headers: ForwardedHeaders;
  /** The client's body with the edits of the steps so far. */
  body: JsonDocument;
  /** What the client asked of the step async-broker; set by it. */
  asyncMode: AsyncMode | undefined;
  /** Set by render. */
  tokenIds: TokenIds | undefined;
  /** Set by replace-media-urls, or by render where the request came as tokens. */
  media: readonly MediaEntry[] = [];
  /** One object for each encode answer that carried params, in order of the media. */
  ecTransferParams: readonly JsonSpan[] = [];
  /** The object that prefill answered. */
  kvTransferParams: JsonSpan | undefined;
  /** `performance.now()` when prefill's answer came; its hand-off is only good for `pipeline.kv_lease`. */
  kvReceivedAt = 0;
  /** Runs prefill again, for a hand-off that is past its lease. Set by prefill; a closure per request would cost. */
  renewKv: ((ctx: RequestContext) => Promise<void>) | undefined;
  /**
   * What prefill and encode answers offered; undefined while there is nothing. The pipeline ends what is open. The request
   * of a batch has those of all its prompts.
   */
  handoffs: Handoff[] | undefined;
  /** Response headers of earlier legs that later legs carry, by lower-case name. */
  readonly captured = new Map<string, string>();
  /** The end of the answer that a worker gave the client. */
  readonly answerTail = new AnswerTail();
  /** Steps and legs in order of their start; those of a batch stand in one timeline. */
  readonly timeline: TimelineEntry[];
  readonly #arrivedAt: number;
  readonly #observers: readonly RequestObserver[];
  readonly #batch: RequestContext | undefined;
  readonly #place: RequestInit['place'];
  #endings: (() => void)[] | undefined;
  /** Of a batch the tokens of its prompts so far; of one that has dropped its prompt those of that. */
  #countedTokens: number | undefined;

  /** `batch` is the request whose prompt this is. */
  constructor(init: RequestInit, batch?: RequestContext) {
    this.timeline = batch?.timeline ?? [];
    this.#batch = batch;
    this.requestId = init.requestId;
    this.revisionDecisionId = init.revisionDecisionId;
    this.path = init.path;
    this.api = init.api;
    this.rawHeaders = init.rawHeaders ?? [];
    this.#place = init.place;
    this.headers = init.headers;
    this.body = init.body;
    this.signal = init.signal;
    this.sink = init.sink;
    this.log = init.log;
    this.model = init.body.text('model') ?? '';
    this.isStreaming = init.body.isTrue('stream');
    this.queueMs = init.queueMs ?? 0;
    this.promptIndex = init.promptIndex;
    this.#arrivedAt = init.arrivedAt ?? performance.now();
    this.#observers = init.observers ?? [];
  }

  /**
   * The context of one prompt of a batch: the same request to timeline and observers, with results and an answer of its
   * own. The answer is read here, so the client's `accept-encoding` does not apply.
   */
  forPrompt(promptIndex: number, own: PromptInit): RequestContext {
    const { requestId, revisionDecisionId, path, api, log } = this;
    return new RequestContext(
      {
        ...{ requestId, revisionDecisionId, path, api, log, promptIndex },
        headers: this.headers.withoutEncoding(),
        arrivedAt: this.#arrivedAt,
        observers: this.#observers,
        ...own,
      },
      this,
    );
  }

  /** Tokens of the prompt, of a batch those of all its prompts so far; undefined when nothing was rendered. */
  get promptTokens(): number | undefined {
    return this.tokenIds?.length ?? this.#countedTokens;
  }

  /** Counts the tokens of a prompt of this batch, if it was rendered. */
  addPromptTokens({ promptTokens }: RequestContext): void {
    if (promptTokens === undefined) return;
    this.#countedTokens = (this.#countedTokens ?? 0) + promptTokens;
  }

  /** Notes what an answer offered. */
  addHandoff(handoff: Handoff): void {
    (this.handoffs ??= []).push(handoff);
    this.#batch?.addHandoff(handoff);
  }

  /** Gives up body and place: from here on the request only waits for an answer that others make. */
  letGo(): void {
    this.body = noBody;
    this.#place?.release();
  }

  /** Gives up what legs are made of: a worker has begun with the answer, and an open stream holds no prompt. */
  dropPrompt(): void {
    this.#countedTokens = this.promptTokens;
    this.body = noBody;
    this.tokenIds = undefined;
    this.ecTransferParams = [];
    if (this.media.length > 0) this.media = this.media.map(({ modality }) => ({ modality }));
  }

  /** Adds what is done when the request is over, however it ends. Must not throw. */
  atEnd(ending: () => void): void {
    (this.#endings ??= []).push(ending);
  }

  /** Does what `atEnd` was given; called by the pipeline. */
  end(): void {
    const endings = this.#endings;
    this.#endings = undefined;
    if (endings) for (const ending of endings) ending();
  }

  /** Milliseconds since the request arrived. */
  elapsedMs(): number {
    return performance.now() - this.#arrivedAt;
  }

  /** Notes in the timeline that a step or leg begins. */
  begin(started: Pick<TimelineEntry, 'name' | 'kind' | 'index' | 'phase'>): TimelineEntry {
    const index = started.index ?? this.promptIndex;
    const entry: TimelineEntry = { ...started, index, startMs: this.elapsedMs() };
    this.timeline.push(entry);
    for (const observer of this.#observers) observer.started(entry);
    return entry;
  }

  /** What the observers add to the headers of a leg; names and values in turn. */
  observedHeaders(leg: TimelineEntry): string[] {
    const headers: string[] = [];
    for (const observer of this.#observers) {
      const own = observer.legHeaders?.(leg);
      if (own) headers.push(...own);
    }
    return headers;
  }

  /** Notes that a step or leg is over, with what it failed with. */
  finish(entry: TimelineEntry, error?: unknown): void {
    entry.endMs = this.elapsedMs();
    for (const observer of this.#observers) observer.finished(entry, error);
  }
}
