import { DelayedError, type Job, WaitingError, Worker } from 'bullmq';
import { type Core } from './core.ts';
import { type Dispatch } from './dispatch.ts';
import { jobIdOf, lanePrefix, laneProbeKey, parseJobId } from './keys.ts';
import { type LaneWorker, type LaneWorkerOptions } from './lane-worker.ts';
import { type Ticket } from './names.ts';
import { type RedisLike } from './script.ts';

const defaultConcurrency = 64;
const lockMs = 15_000;
const stalledIntervalMs = 5_000;
/** How long an idle worker waits for a ticket at most before it looks around. */
const maxPollSeconds = 5;
/** Crashes of workers that one ticket survives. */
const maxStalledCount = 5;
/** Of tickets that failed for good. */
const keptFailures = { age: 86_400, count: 1_000 };
/** After a failed fetch or completion; BullMQ's own default is 15 s. */
const retryDelayMs = 1_000;
const probeMs = 1_000;
const closeMs = 2_500;
const aliveMs = 500;
const errorIntervalMs = 1_000;
/** What a server answers that takes no writes: without a pause a worker asks it thousands of times a second. */
const refusesWrites = /\b(?:OOM|MISCONF|READONLY)\b/;

/** BullMQ renews locks, and keeps the process alive with it, until the last handler has returned. */
class EndableWorker extends Worker {
  endLocks(): Promise<void> {
    return this.lockManager.close();
  }
}

/** Opens a BullMQ worker with the options of 4.7; the caller has seen that Redis is connected. */
export class TicketWorker implements LaneWorker {
  readonly lane: string;
  readonly #core: Core;
  readonly #dispatch: Dispatch;
  readonly #options: LaneWorkerOptions;
  readonly #worker: EndableWorker;
  readonly #client: RedisLike;
  readonly #endConnections: () => void;
  readonly #running = new Map<string, AbortController>();
  readonly #lastError = new Map<string, number>();
  readonly #idle = new Set<() => void>();
  #isPausedByUser = false;
  #probe: NodeJS.Timeout | undefined;

  constructor(core: Core, dispatch: Dispatch, options: LaneWorkerOptions) {
    const { lane } = options;
    this.lane = lane;
    this.#core = core;
    this.#dispatch = dispatch;
    this.#options = options;
    const { client, end } = core.connections.worker();
    this.#client = client;
    this.#endConnections = end;
    const stalledInterval = options.stalledIntervalMs ?? stalledIntervalMs;
    this.#worker = new EndableWorker(
      lane,
      (job: Job, token?: string) => this.#process(job, token ?? ''),
      {
        connection: this.#client,
        prefix: lanePrefix(lane),
        autorun: false,
        concurrency: options.concurrency ?? defaultConcurrency,
        lockDuration: options.lockMs ?? lockMs,
        stalledInterval,
        maxStalledCount,
        runRetryDelay: retryDelayMs,
        drainDelay: Math.min(maxPollSeconds, stalledInterval / 1_000),
        removeOnComplete: { count: 0 },
        removeOnFail: keptFailures,
        metrics: { maxDataPoints: 60 * 24 },
        settings: { backoffStrategy: (attempts) => 1_000 * 2 ** (attempts - 1) },
      },
    );
    this.#worker.on('error', (error) => this.#onError(error));
    this.#worker.on('stalled', () => core.observer.onRedelivery?.(lane));
    this.#worker.on('failed', (job) => void this.#onFailed(job));
    this.#worker.on('lockRenewalFailed', (jobIds: string[]) => {
      for (const jobId of jobIds) {
        this.#running.get(jobId)?.abort(new Error('the ticket is no longer held'));
      }
    });
    void this.#run();
  }

  get running(): number {
    return this.#running.size;
  }

  get isPaused(): boolean {
    return this.#worker.isPaused();
  }

  pause(): void {
    this.#isPausedByUser = true;
    void this.#worker.pause(true);
  }

  resume(): void {
    this.#isPausedByUser = false;
    if (this.#probe === undefined) {
      void this.#worker.resume();
    }
  }

  setConcurrency(concurrency: number): void {
    const isMore = concurrency > this.#worker.concurrency;
    this.#worker.concurrency = concurrency;
    if (isMore && !this.#worker.isPaused()) {
      // The loop waits for a running ticket otherwise.
      void this.#wake();
    }
  }

  abort(ticket: Omit<Ticket, 'lane'>, reason: Error): boolean {
    const controller = this.#running.get(jobIdOf(ticket));
    controller?.abort(reason);
    return controller !== undefined;
  }

  async untilIdle(signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    if (this.#running.size === 0) {
      return;
    }
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const leave = (): void => {
      reject(signal.reason instanceof Error ? signal.reason : new Error('aborted'));
    };
    this.#idle.add(resolve);
    signal.addEventListener('abort', leave, { once: true });
    try {
      await promise;
    } finally {
      this.#idle.delete(resolve);
      signal.removeEventListener('abort', leave);
    }
  }

  async close(): Promise<void> {
    clearInterval(this.#probe);
    // BullMQ's gentle end waits for ever on a server that does not answer.
    const isThere = await within(aliveMs, this.#client.ping());
    if (!(await within(closeMs, this.#worker.close(!isThere)))) {
      await this.#worker.endLocks();
    }
    this.#endConnections();
  }

  async #wake(): Promise<void> {
    await this.#worker.pause(true);
    if (!this.#isPausedByUser && this.#probe === undefined) {
      await this.#worker.resume();
    }
  }

  async #run(): Promise<void> {
    try {
      await this.#worker.run();
    } catch (error) {
      this.#onError(error);
    }
  }

  async #process(job: Job, token: string): Promise<void> {
    const jobId = job.id ?? '';
    const ticket = parseJobId(jobId, this.lane);
    if (ticket === undefined) {
      // Somebody else's job: there is no record to answer to.
      return;
    }
    const controller = new AbortController();
    this.#running.set(jobId, controller);
    try {
      const end = await this.#options.handle(ticket, controller.signal);
      if (end.kind === 'delay') {
        await job.moveToDelayed(Date.now() + Math.max(end.delayMs, 0), token);
        throw new DelayedError();
      }
      if (end.kind === 'return') {
        await job.moveToWait(token);
        throw new WaitingError();
      }
      // Nothing is returned: BullMQ would keep it in the job and in its stream of events.
    } catch (error) {
      throw error instanceof Error
        ? error
        : new Error('the handler threw something else than an error');
    } finally {
      this.#running.delete(jobId);
      if (this.#running.size === 0) {
        for (const tell of this.#idle) {
          tell();
        }
      }
    }
  }

  /** A ticket that will not come back: its request must not wait for the deadline. The sweeper repeats this. */
  async #onFailed(job: Job | undefined): Promise<void> {
    const ticket = parseJobId(job?.id ?? '', this.lane);
    // One that failed for now has no end yet.
    if (ticket === undefined || job?.finishedOn === undefined) {
      return;
    }
    const message = 'the request could not be run: its worker failed repeatedly';
    try {
      await this.#dispatch.finish(ticket, '', { kind: 'error', code: 'INFERENCE_ERROR', message });
    } catch (error) {
      this.#onError(error);
    }
  }

  #onError(cause: unknown): void {
    const error = cause instanceof Error ? cause : new Error('unknown failure');
    if (refusesWrites.test(error.message)) {
      this.#pauseUntilWritable();
    }
    const kind = `${error.name} ${error.message.split(' ', 1)[0] ?? ''}`;
    const now = performance.now();
    if (now - (this.#lastError.get(kind) ?? -Infinity) >= errorIntervalMs) {
      this.#lastError.set(kind, now);
      this.#options.onError?.(error);
    }
  }

  #pauseUntilWritable(): void {
    if (this.#probe !== undefined) {
      return;
    }
    void this.#worker.pause(true);
    this.#probe = setInterval(() => void this.#tryToWrite(), probeMs);
  }

  async #tryToWrite(): Promise<void> {
    try {
      await this.#core.guard.run('probe', () =>
        this.#core.connections.records.set(laneProbeKey(this.lane), '1', 'PX', probeMs),
      );
    } catch {
      return;
    }
    clearInterval(this.#probe);
    this.#probe = undefined;
    if (!this.#isPausedByUser) {
      await this.#worker.resume();
    }
  }
}

/** Whether the work was done in time; it goes on if not, and its failure is nobody's. */
async function within(ms: number, work: Promise<unknown>): Promise<boolean> {
  const { promise: late, resolve } = Promise.withResolvers<boolean>();
  const timer = setTimeout(() => resolve(false), ms);
  const done = work.then(
    () => true,
    () => false,
  );
  const isDone = await Promise.race([done, late]);
  clearTimeout(timer);
  return isDone;
}
