import { type CancelReason } from '@llm-d/broker';
import { type GateReason } from '../gates/lane-gates.ts';
import { type Decision } from '../dispatch/retry-policy.ts';

/** An attempt that ended. */
export interface EndedAttempt {
  readonly lane: string;
  readonly status: number | undefined;
  readonly decision: Decision['kind'];
  readonly isDeadline: boolean;
  readonly durationMs: number;
  readonly resultBytes: number;
  readonly answer: Buffer | undefined;
}

/** Told of what runs count for; no call may throw. */
export interface RunObserver {
  onHeldUp(reason: GateReason, lane: string): void;
  /** Right before an attempt is sent. */
  onAttempt(attempt: {
    readonly lane: string;
    readonly retries: number;
    readonly ageMs: number;
    readonly remainingMs: number;
    readonly bodyBytes: number;
  }): void;
  onAttemptEnd(attempt: EndedAttempt): void;
  /** A run that was ended for its cancellation; `active`: the call to the target had begun. */
  onCancelled(phase: 'queued' | 'active', reason: CancelReason | undefined): void;
}
