import {
  RenderError,
  type RenderedPrompt,
  type RenderNotes,
  type RenderWorkers,
  type UpstreamGroup,
  type UpstreamObserver,
} from '@llm-d/render';
import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client';

import { type ModelRoute } from './model-backend.ts';

/** Seconds. */
const BUCKETS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];

/** Prompts from a greeting to the longest contexts. */
const TOKEN_BUCKETS = [16, 64, 256, 1024, 4096, 16_384, 65_536, 262_144];
/** Images from 256x256 to the largest that is accepted by default. */
const PIXEL_BUCKETS = [65_536, 262_144, 1_048_576, 4_194_304, 16_777_216, 50_000_000];

/** One request on its way; ends once. */
export interface Measure {
  /** Main name of the model; empty until it is known. */
  model: string;
  /** What was rendered in this process. */
  readonly rendered: (notes: RenderNotes, prompts: readonly RenderedPrompt[]) => void;
  end(status: number, mode: string | undefined): void;
  /** A refusal counts under its status, a caller that left under 499, everything else under 500. */
  fail(error: unknown, isGone: boolean, mode: string | undefined): void;
}

/** Metrics of a render shim. */
export class RenderMetrics {
  readonly registry = new Registry();
  /** Requests that are being answered. */
  running = 0;
  private readonly requests: Counter<'route' | 'mode' | 'model' | 'code'>;
  private readonly seconds: Histogram<'route' | 'stage'>;
  private readonly tokens: Histogram;
  private readonly pixels: Histogram;

  private readonly upstreamRequests: Counter<'model' | 'upstream' | 'outcome'>;
  private readonly upstreamEjections: Counter<'model' | 'upstream'>;
  private readonly upstreamRetries: Counter<'model'>;
  private readonly groups = new Map<string, UpstreamGroup>();

  constructor(workers: RenderWorkers) {
    const registers = [this.registry];
    collectDefaultMetrics({ register: this.registry });
    this.requests = new Counter({
      name: 'render_requests_total',
      help: 'Requests by route, mode, model and status; 499 for a caller that left',
      labelNames: ['route', 'mode', 'model', 'code'],
      registers,
    });
    this.seconds = new Histogram({
      name: 'render_seconds',
      help: 'Time of the parts of rendering here, and from the whole request to the whole answer (total)',
      labelNames: ['route', 'stage'],
      buckets: BUCKETS,
      registers,
    });
    this.tokens = new Histogram({
      name: 'render_tokens',
      help: 'Tokens of prompts that were rendered here, placeholders of images included',
      buckets: TOKEN_BUCKETS,
      registers,
    });
    this.pixels = new Histogram({
      name: 'render_image_pixels',
      help: 'Pixels of images of prompts that were rendered here, before they are resized',
      buckets: PIXEL_BUCKETS,
      registers,
    });
    new Gauge({
      name: 'render_queue_depth',
      help: 'Work that waits for a worker: long texts, and images whose tensors are wanted',
      labelNames: ['kind'],
      registers,
      collect() {
        this.set({ kind: 'text' }, workers.queued.texts);
        this.set({ kind: 'image' }, workers.queued.images);
      },
    });
    new Counter({
      name: 'render_worker_restarts_total',
      help: 'Image threads that were replaced because an image broke them or took too long',
      registers,
      collect() {
        this.reset();
        this.inc(workers.restarts);
      },
    });
    for (const outcome of ['hits', 'misses'] as const) {
      new Counter({
        name: `render_cache_${outcome}_total`,
        help: `Texts and tensors that were ${outcome === 'hits' ? '' : 'not '}found in the cache`,
        labelNames: ['cache'],
        registers,
        collect() {
          this.reset();
          this.inc({ cache: 'tokens' }, workers.cache.tokenCounts[outcome]);
          this.inc({ cache: 'tensors' }, workers.cache.tensorCounts[outcome]);
        },
      });
    }
    this.upstreamRequests = new Counter({
      name: 'render_upstream_requests_total',
      help: 'Calls of render servers by model, place in the list, and outcome: served, refused, failed or cancelled',
      labelNames: ['model', 'upstream', 'outcome'],
      registers,
    });
    this.upstreamEjections = new Counter({
      name: 'render_upstream_ejections_total',
      help: 'How often a render server got no requests for a while because too many had failed',
      labelNames: ['model', 'upstream'],
      registers,
    });
    this.upstreamRetries = new Counter({
      name: 'render_upstream_retries_total',
      help: 'Requests that were sent to a second render server',
      labelNames: ['model'],
      registers,
    });
    const { groups } = this;
    new Gauge({
      name: 'render_upstream_healthy',
      help: '1 for a render server that answered its last probe',
      labelNames: ['model', 'upstream'],
      registers,
      collect() {
        for (const [model, { upstreams }] of groups) {
          for (const { index, isHealthy } of upstreams) {
            this.set({ model, upstream: index }, isHealthy === true ? 1 : 0);
          }
        }
      },
    });
    const running = (): number => this.running;
    new Gauge({
      name: 'render_requests_running',
      help: 'Requests that are being answered',
      registers,
      collect() {
        this.set(running());
      },
    });
  }

  /** Counts what happens to the upstreams of a model. */
  upstreams(model: string): UpstreamObserver {
    return {
      called: (upstream, outcome) => {
        this.upstreamRequests.inc({ model, upstream, outcome });
      },
      ejected: (upstream) => {
        this.upstreamEjections.inc({ model, upstream });
      },
      retried: () => {
        this.upstreamRetries.inc({ model });
      },
    };
  }

  /** Shows from now on whether the upstreams of a model answer probes. */
  watchUpstreams(model: string, group: UpstreamGroup): void {
    this.groups.set(model, group);
  }

  begin(route: ModelRoute): Measure {
    const startedAt = performance.now();
    this.running += 1;
    const count = (code: number, mode = 'none'): void => {
      this.running -= 1;
      this.requests.inc({ route, mode, model: measure.model, code });
      this.seconds.observe({ route, stage: 'total' }, (performance.now() - startedAt) / 1000);
    };
    const measure: Measure = {
      model: '',
      rendered: ({ times }, prompts) => {
        for (const [stage, time] of times) this.seconds.observe({ route, stage }, time / 1000);
        for (const { tokenIds, images } of prompts) {
          this.tokens.observe(tokenIds.length);
          for (const { width, height } of images) this.pixels.observe(width * height);
        }
      },
      end: count,
      fail: (error, isGone, mode) => {
        const status = error instanceof RenderError ? error.status : 500;
        count(isGone ? 499 : status, mode);
      },
    };
    return measure;
  }
}
