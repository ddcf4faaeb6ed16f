/** How a meeting ended; everything but `ok` is a refusal. */
export type Meeting = 'ok' | 'other-prompt' | 'taken' | 'pod-restarted';

/** Who waits in a room. */
type Side = 'prefill' | 'decode';

interface Waiting {
  digest: string;
  end(meeting: Meeting): void;
}

/** Rooms in which two have met that are still told apart from new ones. */
const rememberedRooms = 1000;

/**
 * The numbered rooms of an SGLang prefill pod: prefill waits in one until decode has come, and decode until prefill has.
 * A room is good for one meeting about one prompt.
 */
export class Rooms {
  readonly #waiting: Record<Side, Map<string, Waiting>> = { prefill: new Map(), decode: new Map() };
  readonly #used = new Set<string>();

  /** How many are waiting for the other side. */
  get waiting(): number {
    return this.#waiting.prefill.size + this.#waiting.decode.size;
  }

  /** Resolves when both sides are there, at once when the room cannot be had. Rejects with the signal's reason. */
  meet(side: Side, room: string, digest: string, signal: AbortSignal): Promise<Meeting> {
    const own = this.#waiting[side];
    const other = this.#waiting[side === 'prefill' ? 'decode' : 'prefill'];
    if (own.has(room) || this.#used.has(room)) return Promise.resolve('taken');
    const there = other.get(room);
    if (there) {
      const meeting = there.digest === digest ? 'ok' : 'other-prompt';
      this.#remember(room);
      there.end(meeting);
      return Promise.resolve(meeting);
    }
    return new Promise((resolve, reject) => {
      signal.throwIfAborted();
      const leave = (): void => {
        own.delete(room);
        signal.removeEventListener('abort', onAbort);
      };
      const onAbort = (): void => {
        leave();
        reject(signal.reason as Error);
      };
      signal.addEventListener('abort', onAbort, { once: true });
      own.set(room, {
        digest,
        end(meeting) {
          leave();
          resolve(meeting);
        },
      });
    });
  }

  /** Sends everybody away and forgets the rooms. */
  reset(): void {
    for (const side of Object.values(this.#waiting)) {
      for (const waiting of side.values()) waiting.end('pod-restarted');
    }
    this.#used.clear();
  }

  #remember(room: string): void {
    this.#used.add(room);
    const [oldest] = this.#used;
    if (this.#used.size > rememberedRooms && oldest !== undefined) this.#used.delete(oldest);
  }
}
