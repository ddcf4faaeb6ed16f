import { type DispatchRequest } from '@llm-d/broker';
import { type RunTrace } from '@llm-d/telemetry';
import { type Attempt } from '../dispatch/attempt.ts';
import { type Run } from './run.ts';

/** A request in hand, and when its deadline is on `performance.now()`. */
export interface Hand {
  readonly request: DispatchRequest;
  readonly run: Run;
  readonly deadlineAt: number;
  readonly trace: RunTrace | undefined;
}

/** How a request came out of the gates. */
export type Result = Attempt | 'refused' | 'dropped' | 'body-lost';
