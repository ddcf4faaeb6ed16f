import { setTimeout as sleep } from 'node:timers/promises';
import { type Core, endOverdue, recordScript } from './core.ts';
import { memberOf, recordKeys } from './keys.ts';
import { type Messages } from './messages.ts';
import { type RequestRef } from './names.ts';
import { type Unknown, type WaitEnd, type WaitOptions, type WaitReady } from './retrieval.ts';
import { fetchRecord, leaveRecord } from './retrieval-calls.ts';

const sweepMs = 2_000;
const sweepChunk = 100;
/** Node's timers take no more. */
const maxTimerMs = 2 ** 31 - 1;

type Wake = 'pubsub' | 'sweep' | 'timer' | 'left' | 'closing';

interface Waiter {
  readonly ref: RequestRef;
  wake: (why: Wake) => void;
}

const ignore = (): void => {};

/** The held waits of a process: one subscription and one sweep for all of them (4.11). */
export class Waits {
  readonly #core: Core;
  readonly #messages: Messages;
  readonly #parked = new Map<string, Set<Waiter>>();
  #held = 0;
  #isClosing = false;
  #isSweeping = false;
  /** Messages may have been lost: all are to be looked at, at once. */
  #isUrgent = false;
  #timer: NodeJS.Timeout | undefined;

  constructor(core: Core, messages: Messages) {
    this.#core = core;
    this.#messages = messages;
    messages.listen(
      (member) => this.#wakeAll(member, 'pubsub'),
      () => {
        this.#isUrgent = true;
        void this.#sweep();
      },
    );
  }

  get held(): number {
    return this.#held;
  }

  /** See `Broker.wait`. */
  async wait(ref: RequestRef, options: WaitOptions): Promise<WaitEnd> {
    this.#messages.open();
    this.#timer ??= setInterval(() => void this.#sweep(), sweepMs).unref();
    const member = memberOf(ref);
    let noticed: Wake | undefined;
    const waiter: Waiter = { ref, wake: (why) => (noticed ??= why) };
    // Before the record is read, so that no end falls between.
    this.#park(member, waiter);
    const onAbort = (): void => waiter.wake('left');
    options.signal.addEventListener('abort', onAbort, { once: true });
    const pause = async (ms: number): Promise<Wake> => {
      const already = options.signal.aborted ? 'left' : this.#isClosing ? 'closing' : noticed;
      if (already !== undefined) {
        noticed = undefined;
        return already;
      }
      const { promise, resolve } = Promise.withResolvers<Wake>();
      const timer = setTimeout(() => resolve('timer'), Math.min(Math.max(ms, 0), maxTimerMs));
      waiter.wake = resolve;
      const why = await promise;
      clearTimeout(timer);
      waiter.wake = (next) => (noticed ??= next);
      return why;
    };
    try {
      return await this.#hold(ref, options, pause);
    } finally {
      options.signal.removeEventListener('abort', onAbort);
      this.#unpark(member, waiter);
    }
  }

  /** Ends all waits with `closing`, and those that begin after. */
  release(): void {
    this.#isClosing = true;
    for (const member of this.#parked.keys()) {
      this.#wakeAll(member, 'closing');
    }
  }

  close(): void {
    this.release();
    clearInterval(this.#timer);
  }

  async #hold(
    ref: RequestRef,
    { timeoutMs, capMs = Infinity, isCounted }: WaitOptions,
    pause: (ms: number) => Promise<Wake>,
  ): Promise<WaitEnd> {
    const startedAt = performance.now();
    const limitMs = Math.min(timeoutMs, capMs);
    let dueMs = await this.#attach(ref, isCounted);
    if (dueMs === undefined) {
      return { kind: 'unknown' };
    }
    if (dueMs === 'done') {
      const found = await this.#lookAgain(ref);
      if (found !== undefined) return found;
      dueMs = limitMs;
    }
    for (;;) {
      const elapsedMs = performance.now() - startedAt;
      const why = await pause(Math.min(limitMs, dueMs) - elapsedMs);
      if (why === 'left') {
        await this.#quietly(() => leaveRecord(this.#core, ref));
        return { kind: 'left' };
      }
      if (why === 'closing') {
        await this.#uncount(ref);
        return { kind: 'closing' };
      }
      this.#core.observer.onWakeup?.(why);
      const isOver = performance.now() - startedAt >= limitMs;
      if (why === 'timer' && !isOver) {
        // The request's own deadline: by the clock of Redis it may be a little later.
        const left = await this.#quietly(() => endOverdue(this.#core, ref, 0));
        if (typeof left === 'number') {
          dueMs = performance.now() - startedAt + left;
          continue;
        }
        // Without Redis nothing is known before this waiter's own limit.
        dueMs = limitMs;
      }
      const found = await this.#lookAgain(ref);
      if (found !== undefined) {
        return found;
      }
      if (isOver) {
        await this.#uncount(ref);
        return { kind: capMs < timeoutMs ? 'pending' : 'timed-out' };
      }
    }
  }

  /** Counts the waiter unless it is; answers the time to the deadline, or `done`, or undefined for one that is gone. */
  async #attach(ref: RequestRef, isCounted: boolean): Promise<number | 'done' | undefined> {
    const touch = (): Promise<unknown[]> =>
      this.#core.guard.run('touch', () =>
        recordScript(this.#core, 'touch', ref, [ref.generation, isCounted ? 'look' : 'attach', 0]),
      );
    // One that was admitted as a wait is held through an outage; another gets the error.
    const answer = isCounted ? await this.#quietly(touch) : await touch();
    if (answer === undefined) {
      return Infinity;
    }
    const [state, left] = answer;
    return state === 'gone' ? undefined : state === 'done' ? 'done' : Number(left);
  }

  /** Undefined while there is no outcome, or Redis does not say. */
  async #lookAgain(ref: RequestRef): Promise<WaitReady | Unknown | undefined> {
    const found = await this.#quietly(() => fetchRecord(this.#core, ref, ref.generation));
    if (found === undefined || found.kind === 'pending') {
      return undefined;
    }
    if (found.kind === 'unknown') {
      return found;
    }
    const settle = async (isDelivered: boolean): Promise<void> => {
      const what = isDelivered ? 'delivered' : 'undelivered';
      const args = [ref.generation, what, this.#core.settings.fetchGraceMs];
      await this.#core.guard.run('touch', () => recordScript(this.#core, 'touch', ref, args));
    };
    return { ...found, settle };
  }

  async #uncount(ref: RequestRef): Promise<void> {
    const args = [ref.generation, 'undelivered', 0];
    await this.#quietly(() => recordScript(this.#core, 'touch', ref, args));
  }

  /** A wait outlives an outage: what fails is looked at again with the next wake-up. */
  async #quietly<T>(work: () => Promise<T>): Promise<T | undefined> {
    try {
      return await this.#core.guard.run('wait', work);
    } catch {
      return undefined;
    }
  }

  #park(member: string, waiter: Waiter): void {
    const waiters = this.#parked.get(member);
    if (waiters === undefined) {
      this.#parked.set(member, new Set([waiter]));
    } else {
      waiters.add(waiter);
    }
    this.#held += 1;
  }

  #unpark(member: string, waiter: Waiter): void {
    const waiters = this.#parked.get(member);
    // Old layouts of a Map keep their members until a full collection.
    waiter.wake = ignore;
    waiters?.delete(waiter);
    if (waiters?.size === 0) {
      this.#parked.delete(member);
    }
    this.#held -= 1;
  }

  #wakeAll(member: string, why: Wake): void {
    for (const { wake } of this.#parked.get(member) ?? []) {
      wake(why);
    }
  }

  /**
   * Looks at every parked record once: the backup of lost messages. It takes half of its time for it, so that those that
   * wake up in between do not stand behind thousands of others.
   */
  async #sweep(): Promise<void> {
    if (this.#isSweeping || this.#parked.size === 0) {
      return;
    }
    this.#isSweeping = true;
    try {
      do {
        const isUrgent = this.#isUrgent;
        this.#isUrgent = false;
        const members = [...this.#parked.keys()];
        const gapMs = (sweepMs / 2 / members.length) * sweepChunk;
        for (let from = 0; from < members.length && !this.#isClosing; from += sweepChunk) {
          await this.#sweepChunk(members.slice(from, from + sweepChunk));
          if (!isUrgent && !this.#isUrgent && from + sweepChunk < members.length) {
            await sleep(gapMs);
          }
        }
      } while (this.#isUrgent);
    } finally {
      this.#isSweeping = false;
    }
  }

  async #sweepChunk(members: readonly string[]): Promise<void> {
    await this.#quietly(async () => {
      const parked = members.flatMap((member) => {
        const ref = this.#parked.get(member)?.values().next().value?.ref;
        return ref === undefined ? [] : [{ member, ref }];
      });
      const { records } = this.#core.connections;
      const states = await Promise.all(
        parked.map(({ ref }) => records.hmget(recordKeys(ref)[0], 's', 'g')),
      );
      for (const [index, { member, ref }] of parked.entries()) {
        const [state, generation] = states[index] ?? [];
        const isLive = state === 'queued' || state === 'active';
        if (!isLive || generation !== ref.generation) {
          this.#wakeAll(member, 'sweep');
        }
      }
    });
  }
}
