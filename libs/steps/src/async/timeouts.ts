/** Bounds of one mode as the configuration has them, in seconds; 0 = not set. */
export interface TimeoutParams {
  readonly default_seconds: number;
  readonly max_seconds: number;
}

/** Bounds of one mode. */
export interface TimeoutBounds {
  readonly defaultSeconds: number;
  readonly maxSeconds: number;
}

/** Lifetimes of keys and the range of the order in a queue depend on it. */
export const hardMaxSeconds = 7 * 86_400;

const builtIn = {
  enqueue: { default_seconds: 3_600, max_seconds: 86_400 },
  wait: { default_seconds: 60, max_seconds: 3_600 },
} as const;

/**
 * The bounds of a mode: each falls back on its own, and a default above the built-in maximum raises it (1.7).
 *
 * @throws Error when the default that is set is above the maximum that is set.
 */
export function timeoutBounds(mode: 'enqueue' | 'wait', params: TimeoutParams): TimeoutBounds {
  const { default_seconds: wanted, max_seconds: most } = params;
  if (wanted > 0 && most > 0 && wanted > most) {
    throw new Error(
      `timeouts: ${mode}: default_seconds: expected at most max_seconds (${most}), got ${wanted}`,
    );
  }
  const defaultSeconds = wanted || builtIn[mode].default_seconds;
  return {
    defaultSeconds,
    maxSeconds: most || Math.max(builtIn[mode].max_seconds, wanted),
  };
}

/** How long a request may take, from what the client asked. */
export function clampTimeoutMs(asked: number | undefined, bounds: TimeoutBounds): number {
  return Math.min(asked ?? bounds.defaultSeconds, bounds.maxSeconds) * 1_000;
}
