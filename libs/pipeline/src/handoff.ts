/** `kv`: KV blocks that a prefill pod holds for decode. `ec`: an embedding that an encode pod holds for prefill. */
export type HandoffKind = 'kv' | 'ec';

/**
 * How a hand-off ends. `used`: sent to a pod that took it, or may have. `released`: freed early, since nobody will fetch
 * it. `expired`: left to the pod, which frees it when its lease or its time to live is over.
 */
export type HandoffOutcome = 'used' | 'released' | 'expired';

/** A hand-off was offered by an answer, or came to its end. */
export interface HandoffEvent {
  readonly kind: HandoffKind;
  /** As in the configuration, for example `kv-nixl`. */
  readonly connector: string;
  readonly event: 'offered' | HandoffOutcome;
}

/** Hears of every hand-off once when it is offered and once when it ends, maybe after its request. Must not throw. */
export type HandoffListener = (event: HandoffEvent) => void;

/** Where a hand-off stands; `sent` becomes `used` at the end of the request unless a pod has refused it. */
export type HandoffState = 'open' | 'sent' | 'releasing' | HandoffOutcome;

/** What one answer offered to a later leg: ends in exactly one outcome, whatever happens to the request. */
export class Handoff {
  readonly kind: HandoffKind;
  readonly connector: string;
  readonly #listener: HandoffListener;
  readonly #release: ((handoff: Handoff) => void) | undefined;
  #state: HandoffState = 'open';

  /** `release` gives the hand-off back and settles it later; absent where nothing can be given back. */
  constructor(
    offered: Pick<Handoff, 'kind' | 'connector'>,
    listener: HandoffListener,
    release?: (handoff: Handoff) => void,
  ) {
    this.kind = offered.kind;
    this.connector = offered.connector;
    this.#listener = listener;
    this.#release = release;
    this.#tell('offered');
  }

  get state(): HandoffState {
    return this.#state;
  }

  /** The leg that carries it is on the wire: from here on it must not be sent again. */
  sent(): void {
    if (this.#state === 'open') this.#state = 'sent';
  }

  /** The leg that carried it was refused before a pod took it. */
  returned(): void {
    if (this.#state === 'sent') this.#state = 'open';
  }

  /** The first outcome counts. */
  settle(outcome: HandoffOutcome): void {
    if (isOutcome(this.#state)) return;
    this.#state = outcome;
    this.#tell(outcome);
  }

  /** The request is over: what was sent is used, what was not is given back or left to the pod. */
  end(): void {
    if (this.#state === 'sent') this.settle('used');
    if (this.#state !== 'open') return;
    if (!this.#release) {
      this.settle('expired');
      return;
    }
    this.#state = 'releasing';
    this.#release(this);
  }

  #tell(event: HandoffEvent['event']): void {
    this.#listener({ kind: this.kind, connector: this.connector, event });
  }
}

const outcomes: readonly HandoffState[] = ['used', 'released', 'expired'];

const isOutcome = (state: HandoffState): boolean => outcomes.includes(state);

/** How many hand-offs of each kind stand where, for a log line; undefined when there were none. */
export function summarizeHandoffs(
  handoffs: readonly Handoff[] | undefined,
): Partial<Record<HandoffKind, Partial<Record<HandoffState, number>>>> | undefined {
  if (!handoffs) return undefined;
  const summary: Partial<Record<HandoffKind, Partial<Record<HandoffState, number>>>> = {};
  for (const { kind, state } of handoffs) {
    const counts = (summary[kind] ??= {});
    counts[state] = (counts[state] ?? 0) + 1;
  }
  return summary;
}
