import { setTimeout as sleep } from 'node:timers/promises';
import { BrokerUnavailableError } from '@llm-d/broker';

/** How long one thing is tried. */
export interface Persistence {
  /** `performance.now()` after which a failure is final. */
  readonly until: number;
  /** Ends the attempts early; the last failure is thrown. */
  readonly signal?: AbortSignal;
}

const pauseMs = 500;

/**
 * Repeats a call of Redis while Redis is away, every half second. Results of finished calls wait here in memory for
 * Redis to come back: at most one per slot of the process. Other failures are thrown at once.
 */
export async function persistently<T>(
  call: () => Promise<T>,
  { until, signal }: Persistence,
): Promise<T> {
  for (;;) {
    try {
      return await call();
    } catch (error) {
      const isAway = error instanceof BrokerUnavailableError;
      if (!isAway || signal?.aborted || performance.now() >= until) throw error;
    }
    await sleep(pauseMs, undefined, signal ? { signal } : {}).catch(() => undefined);
  }
}
