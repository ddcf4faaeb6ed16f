/** What a sweeper's turn mended (4.15). */
export type RepairKind =
  'closed-entry' | 'expired' | 'ticket-added' | 'failed-ticket' | 'lost-body';

/** Told of what the metrics of 4.16 count. No call may throw. */
export interface BrokerObserver {
  /** A waiter's wake-up and what brought it. */
  onWakeup?(source: 'pubsub' | 'sweep' | 'timer'): void;
  /** One call of Redis: a script's name, or what else was asked. */
  onCommand?(name: string, seconds: number): void;
  onRepair?(kind: RepairKind, lane: string): void;
  /** A ticket was taken again after its worker died. */
  onRedelivery?(lane: string): void;
  /** An outcome was stored: an OutcomeCode, or `response`. */
  onOutcome?(outcome: string): void;
  /** An outcome was discarded. */
  onDiscarded?(why: 'already' | 'gone'): void;
  onError?(error: Error): void;
}
