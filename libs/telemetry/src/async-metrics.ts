import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import { bytesBuckets, secondsBuckets } from './buckets.ts';

const prefix = 'llm_d_async_broker_';
/** One command of Redis: 0.1 ms to its limit of 2 s. */
const commandBuckets = [0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 2, 2.5];

/** What is looked at when the metrics are asked for. */
export interface WatchedQueue {
  readonly heldWaits: number;
  health(): { readonly isReady: boolean; readonly memoryRatio: number };
}

/** The HTTP half of the metrics of async-broker.md 4.16. Registers them; may be made once for a registry. */
export class AsyncMetrics {
  readonly #requests: Counter<'mode' | 'method' | 'code'>;
  readonly #rejected: Counter<'reason'>;
  readonly #wakeups: Counter<'source'>;
  readonly #holdSeconds: Histogram;
  readonly #bodyBytes: Histogram;
  readonly #commandSeconds: Histogram<'script'>;

  constructor(registry: Registry, watched: () => WatchedQueue | undefined) {
    const common = (name: string, help: string) => ({
      name: prefix + name,
      help,
      registers: [registry],
    });
    this.#requests = new Counter({
      ...common('http_requests_total', 'Requests with a mode header, and those by id.'),
      labelNames: ['mode', 'method', 'code'],
    });
    this.#rejected = new Counter({
      ...common('admission_rejected_total', 'Requests that were not queued.'),
      labelNames: ['reason'],
    });
    new Gauge({
      ...common('held_waits', 'Answers that are held until there is a result.'),
      collect() {
        this.set(watched()?.heldWaits ?? 0);
      },
    });
    this.#wakeups = new Counter({
      ...common('wakeups_total', 'Held answers that were woken, by what did it.'),
      labelNames: ['source'],
    });
    this.#holdSeconds = new Histogram({
      ...common('wait_hold_seconds', 'Time that answers were held.'),
      buckets: secondsBuckets,
    });
    this.#bodyBytes = new Histogram({
      ...common('body_bytes', 'Body bytes of requests for the queue.'),
      buckets: bytesBuckets,
    });
    this.#commandSeconds = new Histogram({
      ...common('redis_command_seconds', 'Time of calls of Redis.'),
      labelNames: ['script'],
      buckets: commandBuckets,
    });
    new Gauge({
      ...common('redis_memory_ratio', 'Memory of Redis in use, of its limit.'),
      collect() {
        this.set(watched()?.health().memoryRatio ?? 0);
      },
    });
    new Gauge({
      ...common('redis_ready', 'Whether Redis is connected and set up for a queue.'),
      collect() {
        this.set(watched()?.health().isReady ? 1 : 0);
      },
    });
  }

  /** A request ended; `mode` is empty for those by id, `status` 0 when the client got nothing. */
  answered(mode: string, method: string, status: number): void {
    this.#requests.inc({ mode, method, code: String(status) });
  }

  /** A request for the queue came; sizes in bytes. */
  submitted(bodyBytes: number): void {
    this.#bodyBytes.observe(bodyBytes);
  }

  rejected(reason: string): void {
    this.#rejected.inc({ reason });
  }

  woken(source: string): void {
    this.#wakeups.inc({ source });
  }

  held(seconds: number): void {
    this.#holdSeconds.observe(seconds);
  }

  command(script: string, seconds: number): void {
    this.#commandSeconds.observe({ script }, seconds);
  }
}
