import { type Answered, type Broken, type Told } from './journal.ts';

/** How long held answers took from the target's answer to the client's, while nothing was broken. */
export interface WakeUps {
  readonly count: number;
  readonly p99Ms: number;
}

/** What a fault leaves behind is over after this: of Redis in every process, of a process in its requests. */
const settledMs = ({ what }: Broken): number => (what.startsWith('redis') ? 5_000 : 1_000);

/** Looks at those answers alone whose whole way lies between two faults. */
export function wakeUps(journals: {
  readonly told: readonly Told[];
  readonly answered: readonly Answered[];
  readonly broken: readonly Broken[];
}): WakeUps {
  const { told, answered, broken } = journals;
  const answeredAt = new Map(answered.map(({ n, at }) => [n, at]));
  const times = told.flatMap(({ n, call, says, since, at }) => {
    const from = answeredAt.get(n);
    if (call !== 'wait' || says !== 'outcome' || from === undefined || from < since) return [];
    const isCalm = broken.every((fault) => at < fault.from || from > fault.to + settledMs(fault));
    return isCalm && from <= at ? [at - from] : [];
  });
  times.sort((a, b) => a - b);
  return { count: times.length, p99Ms: times[Math.ceil(times.length * 0.99) - 1] ?? 0 };
}
