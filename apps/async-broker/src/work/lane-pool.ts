import { setTimeout as sleep } from 'node:timers/promises';
import {
  allocateSlots,
  type Broker,
  type LaneBacklog,
  type LaneWorker,
  type Ticket,
} from '@llm-d/broker';
import { type Logger } from '@llm-d/telemetry';
import { type LaneGates } from '../gates/lane-gates.ts';
import { type Runs } from './run.ts';
import { type TicketRunner } from './ticket-runner.ts';

/** What a pool works with. */
export interface LanePoolOptions {
  readonly broker: Broker;
  readonly runner: TicketRunner;
  readonly runs: Runs;
  readonly gates: LaneGates;
  /** Tickets at once in this process, over all lanes. */
  readonly slots: number;
  readonly lockMs: number;
  readonly stalledIntervalMs: number;
  /** A worker that takes nothing for this long although its lane has work is replaced (P17 to P19). */
  readonly stuckMs: number;
  readonly logger: Logger;
  /** A lane is served from now on; it may be one that left the configuration and still has requests. */
  readonly onLane?: (lane: string) => void;
}

/** One lane as metrics see it. */
export interface LaneState {
  readonly lane: string;
  readonly running: number;
  readonly isPaused: boolean;
  readonly backlog: LaneBacklog | undefined;
}

interface Lane {
  worker: LaneWorker;
  isPaused: boolean;
  slots: number;
  backlog: LaneBacklog | undefined;
  /** When a ticket was last seen to run, or none to wait. */
  aliveAt: number;
}

const [allocateEveryMs, lookEveryMs, findLanesEveryMs] = [200, 1_000, 30_000];
/** What calls that were given up get to hand their tickets over. */
const handOverMs = 3_000;

/**
 * A worker for every lane that has one or needs one, and what steers them: slots by backlog, the operator's budget, pauses
 * that the target asks for, cancellations, and the end.
 */
export class LanePool {
  readonly #options: LanePoolOptions;
  readonly #lanes = new Map<string, Lane>();
  readonly #stop = new AbortController();
  readonly #loops: Promise<void>[] = [];
  #leaveCancels = (): void => {};

  constructor(options: LanePoolOptions) {
    this.#options = options;
  }

  /** Resolves when workers take tickets; that waits for Redis to be as it must be. Rejects when closed before. */
  async start(): Promise<void> {
    const { broker, runs } = this.#options;
    const { signal } = this.#stop;
    await broker.untilReady(signal);
    this.#leaveCancels = broker.dispatch.onCancel((ref, reason) => {
      runs.cancel(ref, reason);
    });
    await this.#openLanes();
    this.#loops.push(
      this.#every(allocateEveryMs, () => this.#allocate()),
      this.#every(lookEveryMs, () => this.#look()),
      this.#every(findLanesEveryMs, () => this.#openLanes()),
    );
  }

  states(): LaneState[] {
    return [...this.#lanes].map(([lane, { worker, isPaused, backlog }]) => ({
      lane,
      running: worker.running,
      isPaused: isPaused || worker.isPaused,
      backlog,
    }));
  }

  /** Takes nothing from a lane for a while. */
  pauseLane(name: string, pauseMs: number): void {
    this.#options.gates.close(name, pauseMs);
    const lane = this.#lanes.get(name);
    if (lane) this.#setSlots(lane, 0);
  }

  /**
   * Takes no more tickets, lets running calls go on for a while, then hands what is left to other processes (4.13).
   * Never rejects.
   */
  async drain(drainMs: number): Promise<void> {
    const { runs, logger } = this.#options;
    this.#stop.abort(new Error('the service is shutting down'));
    const workers = [...this.#lanes.values()].map(({ worker }) => worker);
    for (const worker of workers) worker.pause();
    await untilIdle(workers, drainMs);
    if (runs.size > 0) {
      logger.warn({ running: runs.size }, 'calls have outlived the drain and are handed over');
      runs.endAll('shutdown');
      await untilIdle(workers, handOverMs);
    }
    await Promise.all([...this.#loops, ...workers.map((worker) => worker.close())]);
    this.#leaveCancels();
  }

  async #openLanes(): Promise<void> {
    const { broker, runner, gates, logger, lockMs, stalledIntervalMs, onLane } = this.#options;
    const { signal } = this.#stop;
    for (const name of await broker.lanesInUse()) {
      if (this.#lanes.has(name) || signal.aborted) continue;
      const options = {
        lane: name,
        handle: (ticket: Ticket, lock: AbortSignal) =>
          // A worker that waits for a ticket takes one more after it was paused.
          signal.aborted ? backToQueue : runner.handle(ticket, lock),
        concurrency: gates.slots(name) || 1,
        lockMs,
        stalledIntervalMs,
        onError: (error: Error) => {
          // BullMQ names jobs in its messages, and who knows an id may read its result.
          const text = error.message.replaceAll(/r~\S+/g, '(ticket)');
          logger.warn({ lane: name, error: text }, 'lane worker');
        },
      };
      const worker = await broker.openLaneWorker(options, signal);
      this.#lanes.set(name, {
        worker,
        isPaused: false,
        slots: options.concurrency,
        backlog: undefined,
        aliveAt: performance.now(),
      });
      onLane?.(name);
      logger.info({ lane: name }, 'lane is served');
    }
  }

  async #allocate(): Promise<void> {
    const { broker, gates, slots } = this.#options;
    const lanes = [...this.#lanes];
    await Promise.all(
      lanes.map(async ([name, lane]) => {
        lane.backlog = await broker.backlog(name);
      }),
    );
    if (this.#stop.signal.aborted) return;
    const shares = allocateSlots(
      lanes.map(([name, { backlog, worker }]) => ({
        lane: name,
        backlog: backlog?.waiting ?? 0,
        running: worker.running,
      })),
      slots,
    );
    for (const [name, lane] of lanes) {
      this.#setSlots(lane, Math.min(shares.get(name) ?? 0, gates.slots(name)));
    }
  }

  #setSlots(lane: Lane, slots: number): void {
    if (slots === 0) {
      if (!lane.isPaused) lane.worker.pause();
      lane.isPaused = true;
      return;
    }
    if (slots !== lane.slots) lane.worker.setConcurrency(slots);
    lane.slots = slots;
    if (lane.isPaused) lane.worker.resume();
    lane.isPaused = false;
  }

  /** What no message may have told: budgets, cancellations, workers that stopped without a word. */
  async #look(): Promise<void> {
    const { broker, gates, runs } = this.#options;
    const readBudgets = [...this.#lanes.keys()].map(async (lane) => {
      gates.setBudget(lane, await broker.dispatch.gateBudget(lane).catch(() => 0));
    });
    await Promise.all([...readBudgets, this.#replaceStuck()]);
    const running = [...runs];
    if (running.length === 0) return;
    const standings = await broker.dispatch.standings(running);
    for (const [index, run] of running.entries()) {
      const standing = standings[index];
      if (standing === 'cancelled') run.end('cancelled');
      else if (standing !== 'running') run.end('lock-lost');
    }
  }

  async #replaceStuck(): Promise<void> {
    const { logger, stuckMs } = this.#options;
    const now = performance.now();
    for (const [name, lane] of this.#lanes) {
      const isIdle = (lane.backlog?.waiting ?? 0) === 0 || lane.worker.isPaused || lane.isPaused;
      if (isIdle || lane.worker.running > 0) lane.aliveAt = now;
      if (now - lane.aliveAt < stuckMs) continue;
      logger.error({ lane: name }, 'the worker takes nothing although there is work: replaced');
      this.#lanes.delete(name);
      await lane.worker.close();
      await this.#openLanes();
    }
  }

  /** Repeats until the end; what fails because Redis is away is tried again in its turn. */
  async #every(ms: number, work: () => Promise<void>): Promise<void> {
    const { signal } = this.#stop;
    while (!signal.aborted) {
      try {
        await sleep(ms, undefined, { signal });
        await work();
      } catch {
        // Redis is away, which health says, or this is the end.
      }
    }
  }
}

const backToQueue = Promise.resolve({ kind: 'delay', delayMs: 0 } as const);

async function untilIdle(workers: readonly LaneWorker[], limitMs: number): Promise<void> {
  const limit = AbortSignal.timeout(limitMs);
  await Promise.allSettled(workers.map((worker) => worker.untilIdle(limit)));
}
