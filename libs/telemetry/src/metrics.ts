import { type Api } from '@llm-d/gateway';
import {
  type CoordinatorError,
  type HandoffListener,
  legName,
  type RemoteMediaItem,
  type RequestContext,
  type RequestObserver,
  type TimelineEntry,
  type Usage,
} from '@llm-d/pipeline';
import { collectDefaultMetrics, Registry } from 'prom-client';
import { type ErrorCode, errorCode } from './error-code.ts';
import { executionPath } from './execution-path.ts';
import { memo } from './memo.ts';
import { metricFamilies, type WatchedAdmission } from './metric-families.ts';
import { MediaMetrics, type WatchedMedia } from './media-metrics.ts';
import { type MetricsText, metricsText } from './metrics-text.ts';
import { type ModelSeries, ModelTable } from './model-table.ts';

/** How a request ended, as far as its context does not tell. Sizes in bytes of bodies. */
export interface CountedEnd {
  /** What it failed with; undefined when it was served. */
  readonly error: CoordinatorError | undefined;
  readonly requestBytes: number;
  readonly responseBytes: number;
  /** From the arrival to the checked document. */
  readonly parseMs: number;
  /** What the answer says about tokens; null when it cannot be read, undefined when it says nothing. */
  readonly usage: Usage | null | undefined;
}

/** Of a request what is counted. */
export type CountedRequest = Pick<
  RequestContext,
  'api' | 'isStreaming' | 'media' | 'promptTokens' | 'timeline' | 'elapsedMs'
>;

/** A download of media that reached the network. */
export interface CountedDownload {
  readonly result: 'success' | 'error' | 'cancelled';
  /** Until headers came; undefined when none came. */
  readonly headersMs: number | undefined;
  readonly durationMs: number;
}

const routes: Readonly<Record<Api, string>> = {
  chat: 'chat_completions',
  completions: 'completions',
  generate: 'generate',
  // The set of values is upstream's, which has no other.
  responses: 'unknown',
};

/**
 * The metrics of a coordinator (coordinator.md 8.1). Steps and legs count when they end, the rest in one pass when the
 * request ends.
 */
export class CoordinatorMetrics implements RequestObserver {
  readonly registry = new Registry();
  readonly #families = metricFamilies(this.registry, {
    requests: (gauge) => {
      gauge.reset();
      for (const { name, running } of this.#models.all()) gauge.set({ model_name: name }, running);
    },
    steps: (gauge) => {
      for (const [step, running] of this.#stepsRunning) gauge.set({ step }, running);
    },
    admission: () => this.#admission,
  });
  #admission: WatchedAdmission | undefined;
  #watchedMedia: WatchedMedia | undefined;
  /** Those of the media fetcher. */
  readonly media = new MediaMetrics(this.registry, () => this.#watchedMedia);
  readonly #models = new ModelTable(this.#families);
  readonly #stepsRunning = new Map<string, number>();
  readonly #unreadableUsage = this.#families.unreadableUsage.labels();
  readonly #step = memo((step: string) => ({
    duration: this.#families.stepDuration.labels(step),
    error: memo((code: ErrorCode) => this.#families.stepErrors.labels(step, code)),
  }));
  readonly #upstream = memo((upstream: string) => ({
    total: this.#families.upstreamRequests.labels(upstream),
    duration: this.#families.upstreamDuration.labels(upstream),
  }));
  readonly #route = memo((api: Api) => ({
    encodeSubrequests: this.#families.encodeSubrequests.labels(routes[api]),
    overhead: this.#families.overhead.labels(routes[api]),
  }));
  readonly #probe = memo((result: ProbeResult) => this.#families.probes.labels(result));
  readonly #images = this.#families.mediaItems.labels('image');
  readonly #otherMedia = this.#families.mediaItems.labels('other');
  readonly #download = memo((result: CountedDownload['result']) =>
    this.#families.mediaDownload.labels(result),
  );
  readonly #responseSize = memo((isStreaming: boolean) =>
    this.#families.responseSize.labels(String(isStreaming)),
  );

  /** `hasProcessMetrics` adds memory, CPU and event loop of the process; for one instance of a process. */
  constructor({ hasProcessMetrics = false }: { hasProcessMetrics?: boolean } = {}) {
    if (hasProcessMetrics) collectDefaultMetrics({ register: this.registry });
  }

  /** An inference request arrived; its model is not known yet. */
  requestArrived(): void {
    this.#models.unknown.running += 1;
  }

  /** The request ended before it had a document. */
  requestRefused(
    error: CoordinatorError,
    sizes: { requestBytes: number; responseBytes: number; durationMs: number },
  ): void {
    const { unknown } = this.#models;
    unknown.running -= 1;
    count(unknown, error, sizes);
    this.#responseSize(false).observe(sizes.responseBytes);
  }

  /** The model is known; what it returns belongs to the request until `requestEnded`. */
  requestParsed(model: string): ModelSeries {
    const series = this.#models.of(model);
    this.#models.unknown.running -= 1;
    series.running += 1;
    return series;
  }

  /** The request ended after `requestParsed`. */
  requestEnded(series: ModelSeries, ctx: CountedRequest, end: CountedEnd): void {
    const { error, usage, requestBytes, responseBytes } = end;
    const durationMs = ctx.elapsedMs();
    series.running -= 1;
    if (!error) this.#models.prove(series);
    count(series, error, { requestBytes, durationMs });
    this.#responseSize(ctx.isStreaming).observe(responseBytes);
    if (ctx.promptTokens !== undefined) series.inputTokens.observe(ctx.promptTokens);
    this.#countUsage(series, usage);
    this.#countMedia(ctx, error);

    const ran = summed(ctx.timeline);
    const path = executionPath(ran.started);
    if (path) series.path(path).inc();
    const route = this.#route(ctx.api);
    route.encodeSubrequests.observe(ran.encodeLegs);
    route.overhead.observe(Math.max(0, durationMs - end.parseMs - ran.stepMs) / 1_000);
  }

  /** A step or leg starts. */
  started({ kind, name }: TimelineEntry): void {
    if (kind === 'step') this.#addRunning(name, 1);
  }

  /** A step or leg is over. */
  finished(entry: TimelineEntry, error: unknown): void {
    const { kind, name, startMs, endMs = startMs, headersMs = endMs } = entry;
    if (kind === 'step') {
      this.#addRunning(name, -1);
      const step = this.#step(name);
      step.duration.observe((endMs - startMs) / 1_000);
      if (error !== undefined) step.error(errorCode(error)).inc();
      return;
    }
    this.#countCall(legName(entry), headersMs - startMs);
    if (name === 'conditional-decode') this.#probe(probeResult(entry, error)).inc();
  }

  /** Shows the limits of a service from here on. */
  watchAdmission(admission: WatchedAdmission): void {
    this.#admission = admission;
  }

  /** Shows what a media fetcher does from here on. */
  watchMedia(media: WatchedMedia): void {
    this.#watchedMedia = media;
  }

  /** A hand-off was offered or came to its end. */
  readonly handoff: HandoffListener = ({ kind, connector, event }) => {
    const { handoffs, handoffsOffered } = this.#families;
    if (event === 'offered') handoffsOffered[kind].labels(connector).inc();
    else handoffs[kind].labels(connector, event).inc();
  };

  /** A media download ended, well or not. */
  downloadEnded({ result, headersMs, durationMs }: CountedDownload): void {
    this.#download(result).observe(durationMs / 1_000);
    this.#countCall('replace-media-urls', headersMs ?? durationMs);
  }

  /** An item ended that a media fetcher in another process downloaded; the call to it is a leg. */
  remoteMediaEnded({ modality, durationMs, end }: RemoteMediaItem): void {
    const error = 'code' in end ? end : undefined;
    const result = 'code' in end ? undefined : { ...end, facts: {} };
    this.media.itemEnded({ ref: { modality }, durationMs, error, result });
    const failure = error?.code === 'media_cancelled' ? 'cancelled' : 'error';
    this.#download(error ? failure : 'success').observe(durationMs / 1_000);
  }

  /** Everything, in the format that a scraper's `accept` header asks for. */
  text(accept: string | undefined): Promise<MetricsText> {
    return metricsText(this.registry, accept);
  }

  #addRunning(step: string, change: number): void {
    this.#stepsRunning.set(step, (this.#stepsRunning.get(step) ?? 0) + change);
  }

  #countCall(name: string, milliseconds: number): void {
    const upstream = this.#upstream(name);
    upstream.total.inc();
    upstream.duration.observe(milliseconds / 1_000);
  }

  #countUsage(series: ModelSeries, usage: Usage | null | undefined): void {
    if (usage === null) this.#unreadableUsage.inc();
    if (!usage) return;
    const { promptTokens, completionTokens, cachedTokens } = usage;
    if (promptTokens) series.usage('prompt').inc(promptTokens);
    if (completionTokens) series.usage('completion').inc(completionTokens);
    if (cachedTokens) series.usage('cached').inc(cachedTokens);
  }

  #countMedia(
    { media, api, promptTokens, timeline }: CountedRequest,
    error?: CoordinatorError,
  ): void {
    const isKnown =
      media.length > 0 ||
      (api === 'generate' && promptTokens !== undefined) ||
      timeline.some(
        ({ kind, name }) => kind === 'step' && name === inventory && error?.step !== inventory,
      );
    if (!isKnown) return;
    const images = media.filter(({ modality }) => modality === 'image').length;
    this.#images.observe(images);
    this.#otherMedia.observe(media.length - images);
  }
}

/** The step that finds the media of a request. */
const inventory = 'replace-media-urls';

type ProbeResult = 'served' | 'deferred' | 'error' | 'transport_error' | 'cancelled';

function probeResult({ status }: TimelineEntry, error: unknown): ProbeResult {
  if (error === undefined) return status === 412 ? 'deferred' : 'served';
  if (errorCode(error) === 'cancelled') return 'cancelled';
  return status === undefined ? 'transport_error' : 'error';
}

function count(
  series: ModelSeries,
  error: CoordinatorError | undefined,
  { requestBytes, durationMs }: { requestBytes: number; durationMs: number },
): void {
  series.total.inc();
  if (error) series.error(errorCode(error)).inc();
  series.duration.observe(durationMs / 1_000);
  series.size.observe(requestBytes);
}

/** What ran for a request. */
function summed(timeline: readonly TimelineEntry[]): {
  stepMs: number;
  encodeLegs: number;
  started: ReadonlySet<string>;
} {
  const started = new Set<string>();
  let [stepMs, encodeLegs] = [0, 0];
  for (const { kind, name, phase, startMs, endMs } of timeline) {
    if (kind === 'step') {
      started.add(name);
      stepMs += endMs === undefined ? 0 : endMs - startMs;
    } else if (phase === 'encode') encodeLegs += 1;
  }
  return { stepMs, encodeLegs, started };
}
