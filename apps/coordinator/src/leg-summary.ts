import { legName, type TimelineEntry } from '@llm-d/pipeline';
import { rounded } from './rounded.ts';

/** The legs of one name together. Sizes in bytes of bodies. */
export interface LegSummary {
  count: number;
  /** From the start of the first to the end of the last, in milliseconds; of an open one to its headers. */
  ms: number;
  /** The highest of their statuses; undefined when none answered. */
  status: number | undefined;
  request_bytes: number;
  response_bytes: number;
  /** The pod that answered the last of them, where the gateway says so. */
  served_by: string | undefined;
}

/** What the legs of a request took and carried, by name; bounded by the number of steps. */
export function legsOf(timeline: readonly TimelineEntry[]): Readonly<Record<string, LegSummary>> {
  const legs: Record<string, LegSummary> = {};
  const starts: Record<string, number> = {};
  for (const entry of timeline) {
    if (entry.kind === 'step') continue;
    const { startMs, headersMs = startMs, endMs = headersMs, status } = entry;
    const name = legName(entry);
    const first = (starts[name] ??= startMs);
    const leg = (legs[name] ??= emptyLeg());
    leg.count += 1;
    leg.ms = Math.max(leg.ms, rounded(endMs - first));
    leg.request_bytes += entry.requestBytes ?? 0;
    leg.response_bytes += entry.responseBytes ?? 0;
    if (status !== undefined) leg.status = Math.max(status, leg.status ?? 0);
    if (entry.servedBy !== undefined) leg.served_by = entry.servedBy;
  }
  return legs;
}

function emptyLeg(): LegSummary {
  return {
    count: 0,
    ms: 0,
    status: undefined,
    request_bytes: 0,
    response_bytes: 0,
    served_by: undefined,
  };
}
