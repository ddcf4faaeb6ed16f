import { toMediaError } from '../transport-error.ts';

interface Flight<T> {
  promise: Promise<T>;
  readonly controller: AbortController;
  waiters: number;
}

/** What a flight that has ended is left with: old layouts of a Map keep their members until a full collection. */
const over = new Promise<never>(() => {});

/** Equal work of one process, done once for all who ask while it runs. */
export class SingleFlight<T> {
  readonly #flights = new Map<string, Flight<T>>();

  /** Callers that wait for what another began. */
  get waiting(): number {
    let waiting = 0;
    for (const { waiters } of this.#flights.values()) {
      waiting += waiters - 1;
    }
    return waiting;
  }

  /** `signal` takes only this caller out; the work is aborted when nobody is left. */
  async run(
    name: string,
    work: (signal: AbortSignal) => Promise<T>,
    signal: AbortSignal,
  ): Promise<{ readonly value: T; readonly isJoined: boolean }> {
    const running = this.#flights.get(name);
    const flight = running ?? this.#start(name, work);
    const { promise: left, reject } = Promise.withResolvers<never>();
    const leave = (): void => {
      reject(toMediaError(signal.reason, 'headers', 'media'));
    };
    signal.addEventListener('abort', leave, { once: true });
    flight.waiters += 1;
    try {
      const value = await Promise.race([flight.promise, left]);
      return { value, isJoined: running !== undefined };
    } finally {
      signal.removeEventListener('abort', leave);
      flight.waiters -= 1;
      if (flight.waiters === 0 && this.#flights.get(name) === flight) {
        this.#flights.delete(name);
        flight.controller.abort(signal.reason);
      }
    }
  }

  #start(name: string, work: (signal: AbortSignal) => Promise<T>): Flight<T> {
    const controller = new AbortController();
    const promise = work(controller.signal);
    const flight: Flight<T> = { promise, controller, waiters: 0 };
    this.#flights.set(name, flight);
    const end = (): void => {
      if (this.#flights.get(name) === flight) {
        this.#flights.delete(name);
      }
      flight.promise = over;
    };
    promise.then(end, end);
    return flight;
  }
}
