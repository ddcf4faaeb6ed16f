import { type Answered, type Broken, type Ordered, type Ran, type Told } from './journal.ts';
import { wakeUps, type WakeUps } from './wake-ups.ts';

/** What an audit goes by. */
export interface AuditInput {
  readonly told: readonly Told[];
  readonly ran: readonly Ran[];
  readonly answered: readonly Answered[];
  readonly broken: readonly Broken[];
  readonly ordered: readonly Ordered[];
  readonly timeoutSeconds: number;
  readonly maxWakeUpMs: number;
}

/** How many requests ended how, and what must not have happened (the first of each kind). */
export interface AuditResult {
  readonly requests: number;
  readonly accepted: number;
  readonly outcomes: Readonly<Record<string, number>>;
  readonly runs: number;
  /** Requests that ran more than once, which is allowed. */
  readonly repeated: number;
  readonly wakeUps: WakeUps;
  readonly faults: readonly string[];
}

/** I1: an outcome by the deadline and these 5 s. */
const graceMs = 5_000;
/** A held answer may take 3 s beyond its deadline. */
const heldGraceMs = 3_000;
/** From the look at a record to the target's note, on a loaded machine. */
const startSlackMs = 500;
/** The same when a deadline or a cancellation was the outcome: it may meet a call on its way, which is then aborted. */
const overtakenSlackMs = 2_000;
/** A call to the target is aborted within a second of a DELETE. */
const abortSlackMs = 2_000;
const maxFaults = 30;

/** Checks I1 to I4 and I8 over what clients were told and what ran (async-broker.md 5). */
export function audit(input: AuditInput): AuditResult {
  const { told, ran, ordered, timeoutSeconds, maxWakeUpMs } = input;
  const faults: string[] = [];
  const fault = (n: number, what: string): void => {
    if (faults.length < maxFaults) faults.push(`request ${n}: ${what}`);
  };
  const byNumber = Map.groupBy(told, ({ n }) => n);
  const runsOf = Map.groupBy(ran, ({ n }) => n);
  const outcomes: Record<string, number> = {};
  let accepted = 0;
  for (const [n, lines] of byNumber) {
    const own = lines.filter(({ call }) => call !== 'foreign-get' && call !== 'other-body');
    const runs = runsOf.get(n) ?? [];
    for (const { call, status, says } of lines) {
      if (call === 'foreign-get' && says !== 'gone' && says !== 'refused') {
        fault(n, `I4: another tenant was told ${status}`);
      }
      if (call === 'other-body' && says !== 'refused') {
        fault(n, `another body under its id was told ${status}`);
      }
    }
    const late = own.find(
      ({ call, at, since }) => call === 'wait' && at - since > timeoutSeconds * 1000 + heldGraceMs,
    );
    if (late) fault(n, `its held answer took ${late.at - late.since} ms`);
    const acknowledged = own.find(({ says }) => says === 'pending');
    const ends = own.filter(({ says }) => says === 'outcome');
    const [first] = ends;
    if (acknowledged || first) accepted += 1;
    const label = first ? `${first.status}${first.code ? ` ${first.code}` : ''}` : 'none';
    const deleted = own.find(({ call, says }) => call === 'delete' && says === 'done');
    outcomes[deleted ? 'deleted' : label] = (outcomes[deleted ? 'deleted' : label] ?? 0) + 1;
    if (deleted) {
      const after = own.find(
        ({ call, since, says }) =>
          call === 'get' && since >= deleted.at && says !== 'gone' && says !== 'refused',
      );
      if (after) fault(n, `it was told ${after.status} after its DELETE`);
      const run = runs.find(({ at }) => at > deleted.at + abortSlackMs);
      if (run) fault(n, `it ran ${run.at - deleted.at} ms after its DELETE`);
      continue;
    }
    if (acknowledged) {
      const deadline = acknowledged.at + timeoutSeconds * 1000;
      const pending = own.find(
        ({ says, call, since }) =>
          says === 'pending' && call === 'get' && since > deadline + graceMs,
      );
      if (pending) fault(n, `I1: still pending ${pending.since - deadline} ms after its deadline`);
      if (!first) fault(n, 'I1: accepted and never told an outcome');
      const lost = own.find(({ says, at }) => says === 'gone' && at < deadline && !first);
      if (lost) fault(n, 'I1: accepted and then unknown');
    }
    if (new Set(ends.map(({ hash }) => hash)).size > 1) fault(n, 'I2: told two different outcomes');
    if (first) {
      const slackMs = first.code === undefined ? startSlackMs : overtakenSlackMs;
      const run = runs.find(({ at }) => at > first.at + slackMs);
      if (run) fault(n, `I3: ran ${run.at - first.at} ms after its outcome was told`);
    }
  }
  const due = ordered.toSorted((a, b) => a.timeoutSeconds - b.timeoutSeconds).map(({ n }) => n);
  const isOrdered = new Set(due);
  const began = [...new Set(ran.map(({ n }) => n))].filter((n) => isOrdered.has(n));
  if (began.join() !== due.join()) faults.push(`I8: ${due.join()} ran as ${began.join()}`);
  const woken = wakeUps(input);
  if (woken.p99Ms > maxWakeUpMs) faults.push(`wake-ups took ${woken.p99Ms} ms (p99)`);
  return {
    requests: byNumber.size,
    accepted,
    outcomes,
    runs: ran.length,
    repeated: [...runsOf.values()].filter(({ length }) => length > 1).length,
    wakeUps: woken,
    faults,
  };
}
