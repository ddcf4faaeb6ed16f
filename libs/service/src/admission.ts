import { totalmem } from 'node:os';
import { RequestError } from './request-error.ts';
import { type BodyMeter } from './upload.ts';

/** What a process takes on at a time. */
export interface AdmissionLimits {
  /** 0 = no limit. */
  readonly maxConcurrentRequests: number;
  /** Requests that wait for one of those to end. */
  readonly maxQueuedRequests: number;
  /** Longest wait; 0 = no limit. */
  readonly queueTimeoutMs: number;
  /** Bytes of all request bodies together; 0 = an eighth of the memory that the process may use. */
  readonly maxBodyBytesHeld: number;
}

/**
 * The bodies' default share of the memory. Bodies that were let go are collected late: memory was seen to grow by five
 * times what was held (`tools/e2e/src/memory.ts`).
 */
const defaultShare = 1 / 8;

/** Why requests are turned away. */
export type RefusalReason = 'queue_full' | 'queue_timeout' | 'body_bytes';

/** Called at most once: with nothing when the request may go on, else with what its client is told. */
export type Decision = (refusal?: RequestError) => void;

/** Counts what the requests of a process hold, and turns away what is over the limits. */
export class Admission {
  readonly #limits: AdmissionLimits;
  readonly #waiting = new Set<Ticket>();
  readonly #refused: Record<RefusalReason, number> = {
    queue_full: 0,
    queue_timeout: 0,
    body_bytes: 0,
  };
  #running = 0;
  #bodyBytesHeld = 0;
  /** The limit of `bodyBytesHeld`. */
  readonly maxBodyBytesHeld: number;

  /** A single body of `bodyLimitBytes` is always let in, whatever `maxBodyBytesHeld` says. */
  constructor(limits: AdmissionLimits, bodyLimitBytes: number) {
    this.#limits = limits;
    const wanted = limits.maxBodyBytesHeld || Math.floor(availableBytes() * defaultShare);
    this.maxBodyBytesHeld = Math.max(wanted, bodyLimitBytes);
  }

  /** Requests that were let in and have not ended. */
  get running(): number {
    return this.#running;
  }

  /** Requests that wait for their turn. */
  get queued(): number {
    return this.#waiting.size;
  }

  /** Bytes of the bodies of running requests, those that are announced and not yet there included. */
  get bodyBytesHeld(): number {
    return this.#bodyBytesHeld;
  }

  /** Requests that were turned away, since the start. */
  get refused(): Readonly<Record<RefusalReason, number>> {
    return this.#refused;
  }

  /**
   * Lets a request in, has it wait or turns it away. `decide` may be called before this returns; it is not
   * called for a ticket that is released while it waits.
   */
  enter(ticket: Ticket, decide: Decision): void {
    const { maxConcurrentRequests, maxQueuedRequests, queueTimeoutMs } = this.#limits;
    if (maxConcurrentRequests === 0 || this.#running < maxConcurrentRequests) {
      this.#admit(ticket, decide);
      return;
    }
    if (this.#waiting.size >= maxQueuedRequests) {
      decide(this.#refuse('queue_full'));
      return;
    }
    this.#waiting.add(ticket);
    const since = performance.now();
    const timer =
      queueTimeoutMs === 0
        ? undefined
        : setTimeout(() => {
            this.#waiting.delete(ticket);
            decide(this.#refuse('queue_timeout'));
          }, queueTimeoutMs);
    ticket.onTurn = (isLetIn) => {
      clearTimeout(timer);
      this.#waiting.delete(ticket);
      if (!isLetIn) return;
      ticket.queueMs = performance.now() - since;
      this.#admit(ticket, decide);
    };
  }

  /**
   * Notes how many bytes the body of a request has by now, at least. Returns the refusal when all bodies together
   * would be too much.
   */
  hold(ticket: Ticket, bodyBytes: number): RequestError | undefined {
    const more = bodyBytes - ticket.bodyBytes;
    if (more <= 0 || ticket.isReleased) return undefined;
    if (this.#bodyBytesHeld + more > this.maxBodyBytesHeld) return this.#refuse('body_bytes');
    this.#bodyBytesHeld += more;
    ticket.bodyBytes = bodyBytes;
    return undefined;
  }

  /** Takes back everything that a request has, at any time and more than once. */
  release(ticket: Ticket): void {
    if (ticket.isReleased) return;
    ticket.isReleased = true;
    this.#bodyBytesHeld -= ticket.bodyBytes;
    if (!ticket.isRunning) {
      ticket.onTurn?.(false);
      return;
    }
    this.#running -= 1;
    const [next] = this.#waiting;
    next?.onTurn?.(true);
  }

  #admit(ticket: Ticket, decide: Decision): void {
    this.#running += 1;
    ticket.isRunning = true;
    decide();
  }

  #refuse(reason: RefusalReason): RequestError {
    this.#refused[reason] += 1;
    const { status, code, message } = refusals[reason];
    return new RequestError(status, code, message, { headers: ['retry-after', '1'] });
  }
}

/** What one request has of the limits; its `Admission` alone writes it. */
export class Ticket implements BodyMeter {
  readonly #admission: Admission;
  /** Time that the request waited for its turn. */
  queueMs = 0;
  bodyBytes = 0;
  isRunning = false;
  isReleased = false;
  /** Ends the wait, with the turn or without it. */
  onTurn: ((isLetIn: boolean) => void) | undefined;

  constructor(admission: Admission) {
    this.#admission = admission;
  }

  hold(bodyBytes: number): RequestError | undefined {
    return this.#admission.hold(this, bodyBytes);
  }

  /** Gives back everything; may be called again. */
  release(): void {
    this.#admission.release(this);
  }
}

/** Too many requests are no reason for a load balancer to give the replica up; memory that is full is. */
const refusals = {
  queue_full: {
    status: 429,
    code: 'TOO_MANY_REQUESTS',
    message: 'as many requests as may run and wait are running and waiting, try again later',
  },
  queue_timeout: {
    status: 429,
    code: 'QUEUE_TIMEOUT',
    message: 'the request waited too long for its turn, try again later',
  },
  body_bytes: {
    status: 503,
    code: 'BODY_MEMORY_FULL',
    message: 'other requests take all the memory that there is for bodies, try again later',
  },
} as const satisfies Record<RefusalReason, { status: number; code: string; message: string }>;

/** The memory of the container when it has a limit, else of the machine. */
function availableBytes(): number {
  const limit = process.constrainedMemory();
  const total = totalmem();
  // Without a limit some systems say 0 and others a number beyond all memory.
  return limit > 0 && limit < total ? limit : total;
}
