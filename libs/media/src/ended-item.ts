import { type MediaError } from './media-error.ts';
import { type MediaResult } from './media-result.ts';
import { type MediaRef } from './options.ts';

/** How one reference of a call ended; equal references of a call are one. */
export interface EndedItem {
  readonly ref: MediaRef;
  /** Positions of the reference in the caller's list. */
  readonly indices: readonly number[];
  /** Exactly one of the two is there. */
  readonly result: MediaResult | undefined;
  readonly error: MediaError | undefined;
  /** From the beginning of its work, waits included. */
  readonly durationMs: number;
}
