import { type MediaFetcher } from '@llm-d/media';
import { type Admission } from '@llm-d/service';
import { MediaMetrics } from '@llm-d/telemetry';
import { collectDefaultMetrics, Counter, Gauge, Registry } from 'prom-client';

/** The metrics of the fetcher (media-fetcher.md 11) and of its edge. No label holds a host or a URL. */
export class FetcherMetrics {
  readonly registry = new Registry();
  readonly media = new MediaMetrics(this.registry, () => this.#fetcher);
  #fetcher: MediaFetcher | undefined;

  /** `hasProcess` adds the metrics of the process, which are the same in every registry. */
  constructor({ hasProcess = false } = {}) {
    if (hasProcess) collectDefaultMetrics({ register: this.registry });
  }

  /** Shows what the fetcher and its edge have in hand; may be called once. */
  watch(fetcher: MediaFetcher, admission: Admission): void {
    this.#fetcher = fetcher;
    const registers = [this.registry];
    const gauge = (name: string, help: string, value: () => number): void => {
      new Gauge({
        ...{ name, help, registers },
        collect() {
          this.set(value());
        },
      });
    };
    gauge('media_requests_running', 'Requests that are served.', () => admission.running);
    gauge('media_requests_queued', 'Requests that wait for their turn.', () => admission.queued);
    gauge(
      'media_held_bytes',
      'Bytes of request bodies and answers.',
      () => admission.bodyBytesHeld,
    );
    new Counter({
      ...{
        name: 'media_requests_refused_total',
        help: 'Requests that were turned away.',
        registers,
      },
      labelNames: ['reason'],
      collect() {
        this.reset();
        for (const [reason, count] of Object.entries(admission.refused)) {
          this.inc({ reason }, count);
        }
      },
    });
  }
}
