import { RenderError, type RenderWorkers } from '@llm-d/render';
import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client';

import { type ModelRoute } from './model-backend.ts';

/** Seconds. */
const BUCKETS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];

/** One request on its way; ends once. */
export interface Measure {
  /** Main name of the model; empty until it is known. */
  model: string;
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
  private readonly seconds: Histogram<'route'>;

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
      help: 'Time from the whole request to the whole answer',
      labelNames: ['route'],
      buckets: BUCKETS,
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
    new Gauge({
      name: 'render_worker_restarts',
      help: 'Image threads that were replaced because an image broke them or took too long',
      registers,
      collect() {
        this.set(workers.restarts);
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

  begin(route: ModelRoute): Measure {
    const startedAt = performance.now();
    this.running += 1;
    const count = (code: number, mode = 'none'): void => {
      this.running -= 1;
      this.requests.inc({ route, mode, model: measure.model, code });
      this.seconds.observe({ route }, (performance.now() - startedAt) / 1000);
    };
    const measure: Measure = {
      model: '',
      end: count,
      fail: (error, isGone, mode) => {
        const status = error instanceof RenderError ? error.status : 500;
        count(isGone ? 499 : status, mode);
      },
    };
    return measure;
  }
}
