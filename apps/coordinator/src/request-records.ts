import { type Logger, type TraceIds, type Tracing } from '@llm-d/telemetry';
import { type RecentRequests } from './recent-requests.ts';
import { type RequestEnd, summarize, type Summarized, timelineOf } from './request-summary.ts';

/** Where finished requests are written down. */
export interface RequestRecords {
  readonly logger: Logger;
  /** Absent without a debug listener. */
  readonly recent?: RecentRequests | undefined;
  /** Absent where requests are not traced. */
  readonly tracing?: Tracing | undefined;
}

/** Writes a finished request to the log and to the debug listener. */
export function recordRequest(
  { logger, recent }: RequestRecords,
  ctx: Summarized,
  end: RequestEnd,
  trace?: TraceIds,
): void {
  const isLogged = logger.isLevelEnabled('info');
  if (!isLogged && !recent) return;
  const summary = summarize(ctx, end);
  recent?.add(ctx.requestId, { ...summary, timeline: timelineOf(ctx.timeline) });
  if (isLogged) logger.info(trace ? { ...summary, ...trace } : summary, 'request');
}
