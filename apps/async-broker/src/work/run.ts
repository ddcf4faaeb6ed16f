import { type CancelReason, type RequestRef } from '@llm-d/broker';
import { CallEnded } from '../dispatch/call-ended.ts';
import { type Fault } from '../dispatch/attempt.ts';

/** One start of a request in this process. */
export class Run {
  readonly ref: RequestRef;
  /** Owner token of this start. */
  readonly token: string;
  /** Whether the call to the target has begun. */
  hasBegun = false;
  /** Whether the target has begun to answer: then a lost lock is no reason to throw the answer away. */
  hasAnswer = false;
  /** Who cancelled it; undefined when that was not heard. */
  cancelReason: CancelReason | undefined;
  readonly #control = new AbortController();

  constructor(ref: RequestRef, token: string) {
    this.ref = ref;
    this.token = token;
  }

  get signal(): AbortSignal {
    return this.#control.signal;
  }

  end(fault: Fault): void {
    if (fault === 'lock-lost' && this.hasAnswer) return;
    this.#control.abort(new CallEnded(fault));
  }
}

/** The runs of a process, to be found by what they run. */
export class Runs {
  readonly #runs = new Set<Run>();
  /** Every process hears of every cancellation: most are of requests that run elsewhere. */
  readonly #byId = new Map<string, Set<Run>>();

  get size(): number {
    return this.#runs.size;
  }

  add(run: Run): void {
    this.#runs.add(run);
    const { id } = run.ref;
    this.#byId.set(id, (this.#byId.get(id) ?? new Set()).add(run));
  }

  delete(run: Run): void {
    this.#runs.delete(run);
    const same = this.#byId.get(run.ref.id);
    same?.delete(run);
    if (same?.size === 0) this.#byId.delete(run.ref.id);
  }

  /** Ends what runs under a name: more than one only after a stall. Returns how many. */
  cancel({ tenant, id, generation }: RequestRef, reason?: CancelReason): number {
    let count = 0;
    for (const run of this.#byId.get(id) ?? []) {
      if (run.ref.tenant !== tenant || run.ref.generation !== generation) continue;
      run.cancelReason = reason;
      run.end('cancelled');
      count += 1;
    }
    return count;
  }

  /** Ends all of them. */
  endAll(fault: Fault): void {
    for (const run of this.#runs) run.end(fault);
  }

  [Symbol.iterator](): IterableIterator<Run> {
    return this.#runs.values();
  }
}
