import { type Broker, openBroker } from '@llm-d/broker';
import {
  type AsyncHost,
  type QueueOptions,
  type RequestQueue,
  type StoredRequests,
} from '@llm-d/pipeline';
import { AsyncMetrics, type CoordinatorMetrics, FaultLog, type Logger } from '@llm-d/telemetry';
import { brokerQueue } from './broker-queue.ts';

/** Opens the queue for a pipeline that has one, and looks after it. Without such a pipeline it does nothing. */
export class BrokerHost implements AsyncHost {
  readonly #logger: Logger;
  readonly #faults: FaultLog;
  readonly #registry: CoordinatorMetrics['registry'];
  #broker: Broker | undefined;
  /** What was last said to be wrong with the server. */
  #told = '';
  #metrics: AsyncMetrics | undefined;
  #requests: StoredRequests | undefined;

  constructor(logger: Logger, { registry }: CoordinatorMetrics) {
    this.#logger = logger;
    this.#faults = new FaultLog(logger, 'async-broker: redis_url: the queue cannot be used');
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
        order: options.order,
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
      deleteActive: options.deleteActive,
      compatCounters: options.compatCounters,
      observer: {
        onWakeup: (source) => {
          metrics.woken(source);
        },
        onCommand: (name, seconds) => {
          metrics.command(name, seconds);
        },
        onError: (error) => {
          this.#faults.note(error);
        },
      },
    });
    this.#metrics = metrics;
    return brokerQueue(
      this.#broker,
      metrics,
      () => this.#problem(),
      (error) => {
        this.#faults.note(error);
      },
    );
  }

  serveRequests(requests: StoredRequests): void {
    this.#requests = requests;
  }

  /** What the routes work with; undefined where no requests can be queued. */
  get queue(): { requests: StoredRequests; metrics: AsyncMetrics } | undefined {
    const [requests, metrics] = [this.#requests, this.#metrics];
    return requests && metrics && { requests, metrics };
  }

  /** Rejects with what keeps the queue from being used. */
  check(): Promise<void> {
    const problem = this.#problem();
    if (problem) return Promise.reject(problem);
    const isReady = this.#broker?.health().isReady ?? true;
    return isReady ? Promise.resolve() : Promise.reject(new Error('not connected'));
  }

  /** Answers those who wait that their requests are pending. */
  releaseWaits(): void {
    this.#broker?.releaseWaits();
  }

  /** What makes the server one that would lose requests; the log hears of it once, with the command that mends it. */
  #problem(): Error | undefined {
    const problems = this.#broker?.health().problems ?? [];
    const told = problems.map(({ text, command }) => `${text} (${command})`).join('; ');
    if (told !== this.#told) {
      this.#told = told;
      if (told === '') this.#logger.info('the Redis of the queue is set up as it should be');
      else this.#logger.error({ problems }, 'the Redis of the queue would lose requests');
    }
    return told === '' ? undefined : new Error(told);
  }

  async close(): Promise<void> {
    await this.#broker?.close();
  }
}

function redisOf(url: string) {
  const urls = url.split(',').map((one) => one.trim());
  return urls.length > 1 ? { clusterUrls: urls } : { url };
}
