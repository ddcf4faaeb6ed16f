import { type HandoffEvent, type HandoffKind, type HandoffListener } from './handoff.ts';

/** Hand-offs of one connector; `offered` minus the three outcomes are those still in flight. */
export type HandoffTotals = Record<HandoffEvent['event'], number>;

/** Counts the hand-offs of a process by kind, connector and outcome. */
export class HandoffCounts {
  readonly #totals: Record<HandoffKind, Record<string, HandoffTotals>> = { kv: {}, ec: {} };

  readonly count: HandoffListener = ({ kind, connector, event }) => {
    const totals = (this.#totals[kind][connector] ??= {
      offered: 0,
      used: 0,
      released: 0,
      expired: 0,
    });
    totals[event] += 1;
  };

  /** The counts by kind and connector. */
  toJSON(): Readonly<Record<HandoffKind, Readonly<Record<string, Readonly<HandoffTotals>>>>> {
    return this.#totals;
  }
}
