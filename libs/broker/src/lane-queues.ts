import { Queue } from 'bullmq';
import { type Connections } from './connections.ts';
import { jobIdOf, laneAnchorKey, lanePrefix } from './keys.ts';
import { type RequestRef, type Ticket } from './names.ts';

/** The range of BullMQ's priorities; 0 would overtake all others. */
const maxPriority = 2_097_151;
/** One request of a tenant stands this far behind its last one in a `fair-edf` lane. */
const fairQuantumMs = 50;
const anchorLifeMs = 6 * 3_600_000;
const cacheMs = 1_000;
/**
 * Of every ticket; each option is stored and read with it, so that what the worker can say (what becomes of tickets that
 * have ended) is said there. `attempts` only covers unexpected exceptions.
 */
const ticketOptions = { attempts: 5, backoff: { type: 'custom' } } as const;
/**
 * Of a job that has not run. Its id says all that a ticket says: Redis keeps a hash small and fast as long as no value has
 * more than 64 bytes, which tenant, id and generation together have.
 */
const unused = {
  data: '{}',
  ...{ progress: 0, attemptsMade: 0, attemptsStarted: 0, stalledCounter: 0 },
  ...{ failedReason: '', returnvalue: '' },
} as const;

/** When a request should run, in seconds since the lane's anchor: 1 at the earliest, equal ones first come first. */
export function priorityOf(dueMs: number, anchorMs: number): number {
  const seconds = Math.floor(dueMs / 1_000) - Math.floor(anchorMs / 1_000);
  return Math.min(Math.max(1 + seconds, 1), maxPriority);
}

/**
 * What a request is ordered by: its deadline, or in a fair lane the tenant's n-th open request n quanta from now, so
 * that a tenant's many requests do not stand before another's first one.
 */
export function fairDueMs(
  deadlineMs: number,
  nowMs: number,
  openCount: number,
  weight: number,
): number {
  return Math.min(deadlineMs, nowMs + (openCount * fairQuantumMs) / weight);
}

/** What a ticket needs beside its name. */
export interface TicketOrder {
  /** By the clock of Redis. */
  readonly dueMs: number;
  readonly nowMs: number;
}

interface LaneState {
  readonly queue: Queue;
  anchorMs: number;
  anchorReadAt: number;
  ratePerSecond: number;
  rateReadAt: number;
}

/** The lanes' queues; they hold tickets only. */
export class LaneQueues {
  readonly #connections: Connections;
  readonly #onError: (error: Error) => void;
  readonly #lanes = new Map<string, LaneState>();

  constructor(connections: Connections, onError: (error: Error) => void) {
    this.#connections = connections;
    this.#onError = onError;
  }

  /** To be asked for only after the first connection: a Queue that starts without one never works. */
  queue(lane: string): Queue {
    return this.#lane(lane).queue;
  }

  /** Adds a ticket unless it is there. */
  async add(ticket: Ticket, order: TicketOrder): Promise<void> {
    const { queue } = this.#lane(ticket.lane);
    const anchorMs = await this.#anchor(ticket.lane, order.nowMs);
    const id = jobIdOf(ticket);
    const opts = { ...ticketOptions, priority: priorityOf(order.dueMs, anchorMs) };
    // What `Queue.add` does after it has made and checked a Job, which costs more than the rest.
    const job = { ...unused, id, name: 'request', opts, timestamp: Date.now() };
    await queue.getBackend().addJob(job, id);
  }

  /** Takes a ticket out of the queue. Whether it was there is not known; one that runs stays. */
  async remove(ref: RequestRef, lane: string): Promise<void> {
    await this.queue(lane).remove(jobIdOf(ref));
  }

  /** Tickets that were completed per second in the last whole minute; 0 when unknown. */
  async finishRate(lane: string): Promise<number> {
    const state = this.#lane(lane);
    if (performance.now() - state.rateReadAt > cacheMs) {
      state.rateReadAt = performance.now();
      const { data } = await state.queue.getMetrics('completed', 0, 0);
      state.ratePerSecond = Number(data[0] ?? 0) / 60;
    }
    return state.ratePerSecond;
  }

  /** Leaves the shared connection open. */
  async close(): Promise<void> {
    await Promise.allSettled([...this.#lanes.values()].map(({ queue }) => queue.close()));
    this.#lanes.clear();
  }

  #lane(lane: string): LaneState {
    let state = this.#lanes.get(lane);
    if (state === undefined) {
      const queue = new Queue(lane, {
        prefix: lanePrefix(lane),
        // Every Queue of a lane must have it: one made without it resets the lane's metadata (4.7).
        streams: { events: { maxLen: 1_000 } },
        connection: this.#connections.queues,
      });
      queue.on('error', this.#onError);
      const never = -Infinity;
      state = { queue, anchorMs: 0, anchorReadAt: never, ratePerSecond: 0, rateReadAt: never };
      this.#lanes.set(lane, state);
      // A Queue whose start failed keeps failing: the next call makes another.
      queue.waitUntilReady().catch(() => this.#lanes.delete(lane));
    }
    return state;
  }

  /** The lane's anchor; a process with an old one missorts for a second. */
  async #anchor(lane: string, nowMs: number): Promise<number> {
    const state = this.#lane(lane);
    if (performance.now() - state.anchorReadAt <= cacheMs) {
      return state.anchorMs;
    }
    const { records } = this.#connections;
    const key = laneAnchorKey(lane);
    await records.hsetnx(key, 'anchor', nowMs);
    let anchorMs = Number(await records.hget(key, 'anchor'));
    if (nowMs - anchorMs > anchorLifeMs) {
      const counts = await state.queue.getJobCounts('prioritized', 'delayed');
      if (counts['prioritized'] === 0 && counts['delayed'] === 0) {
        await records.hset(key, 'anchor', nowMs);
        anchorMs = nowMs;
      }
    }
    state.anchorMs = anchorMs;
    state.anchorReadAt = performance.now();
    return anchorMs;
  }
}
