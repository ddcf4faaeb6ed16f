import { type Broker, openBroker } from '@llm-d/broker';
import {
  type AsyncHost,
  type QueueOptions,
  type RequestQueue,
  type StoredRequests,
} from '@llm-d/pipeline';
import { AsyncMetrics, type CoordinatorMetrics, type Logger } from '@llm-d/telemetry';
import { brokerQueue } from './broker-queue.ts';

/** Opens the queue for a pipeline that has one, and looks after it. Without such a pipeline it does nothing. */
export class BrokerHost implements AsyncHost {
  readonly #logger: Logger;
  readonly #registry: CoordinatorMetrics['registry'];
  #broker: Broker | undefined;
  /** Present when requests can be queued. */
  requests: StoredRequests | undefined;
  metrics: AsyncMetrics | undefined;

  constructor(logger: Logger, { registry }: CoordinatorMetrics) {
    this.#logger = logger;
    this.#registry = registry;
  }

  openQueue(options: QueueOptions): RequestQueue {
    if (this.#broker) throw new Error('a pipeline has one queue');
    const metrics = new AsyncMetrics(this.#registry, () => this.#broker);
    const { maxLaneBacklog, maxTenantBacklog, maxHeldWaits } = options;
    this.#broker = openBroker({
      redis: redisOf(options.url),
      lanes: options.lanes.map((name) => ({
        name,
        ...(maxLaneBacklog !== undefined && { maxBacklog: maxLaneBacklog }),
      })),
      tenant: (tenant) => {
        const concurrency = options.quotaOf(tenant);
        return {
          ...(concurrency !== undefined && { concurrency }),
          ...(maxTenantBacklog !== undefined && { maxBacklog: maxTenantBacklog }),
        };
      },
      limits: maxHeldWaits === undefined ? {} : { maxHeldWaits },
      lifetimes: { resultMs: options.resultMs, fetchGraceMs: options.fetchGraceMs },
      idConflict: options.idConflict,
      rerunOnRetry: options.rerunOnRetry,
      ackDurability: options.ackDurability,
      appendOnlyFile: options.appendOnlyFile,
      cancelActiveOnDisconnect: options.cancelActiveOnDisconnect,
      observer: {
        onWakeup: (source) => {
          metrics.woken(source);
        },
        onCommand: (name, seconds) => {
          metrics.command(name, seconds);
        },
        onError: (error) => {
          this.#logger.warn({ error: error.message }, 'the queue reports a fault');
        },
      },
    });
    this.metrics = metrics;
    return brokerQueue(this.#broker, metrics);
  }

  serveRequests(requests: StoredRequests): void {
    this.requests = requests;
  }

  /** Rejects with what keeps the queue from being used. */
  check(): Promise<void> {
    const health = this.#broker?.health();
    if (!health || health.isReady) return Promise.resolve();
    const texts = health.problems.map(({ text, command }) => `${text} (${command})`);
    return Promise.reject(new Error(texts.join('; ') || 'not connected'));
  }

  /** Answers those who wait that their requests are pending. */
  releaseWaits(): void {
    this.#broker?.releaseWaits();
  }

  async close(): Promise<void> {
    await this.#broker?.close();
  }
}

function redisOf(url: string) {
  const urls = url.split(',').map((one) => one.trim());
  return urls.length > 1 ? { clusterUrls: urls } : { url };
}
