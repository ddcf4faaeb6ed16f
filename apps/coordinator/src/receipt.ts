import { type RequestContext, type TimelineEntry } from '@llm-d/pipeline';
import { type LegSummary, legsOf } from './leg-summary.ts';
import { rounded } from './rounded.ts';

/** Of a request what its receipt needs. */
export type Receipted = Pick<
  RequestContext,
  'requestId' | 'timeline' | 'elapsedMs' | 'queueMs' | 'promptTokens' | 'media'
>;

/** What a request took, for the log and, without pods, for clients. Times in milliseconds, sizes in bytes of bodies. */
export interface Receipt {
  readonly request_id: string;
  readonly ms: number;
  /** Time that the request waited for its turn. */
  readonly queue_ms: number;
  /** Time of each step that ended. */
  readonly steps: Readonly<Record<string, number>>;
  readonly legs: Readonly<Record<string, LegSummary>>;
  /** Undefined when nothing rendered the prompt. */
  readonly prompt_tokens: number | undefined;
  readonly media_items: number;
}

/** The receipt of a request as far as it has come. What else is known of hand-offs belongs here. */
export function receiptOf(ctx: Receipted): Receipt {
  return {
    request_id: ctx.requestId,
    ms: rounded(ctx.elapsedMs()),
    queue_ms: rounded(ctx.queueMs),
    steps: stepsOf(ctx.timeline),
    legs: legsOf(ctx.timeline),
    prompt_tokens: ctx.promptTokens,
    media_items: ctx.media.length,
  };
}

/** Time of each step that ended; of the prompts of a batch together, from the first start to the last end. */
export function stepsOf(timeline: readonly TimelineEntry[]): Record<string, number> {
  const steps: Record<string, number> = {};
  const starts: Record<string, number> = {};
  for (const { kind, name, startMs, endMs } of timeline) {
    if (kind !== 'step') continue;
    const first = (starts[name] ??= startMs);
    if (endMs !== undefined) steps[name] = Math.max(steps[name] ?? 0, rounded(endMs - first));
  }
  return steps;
}

/** The receipt as a client gets it: one line of ASCII, without the addresses of pods. */
export function receiptText(ctx: Receipted): string {
  const { legs, ...rest } = receiptOf(ctx);
  const shown = Object.entries(legs).map(([name, leg]) => [name, { ...leg, served_by: undefined }]);
  const text = JSON.stringify({ ...rest, legs: Object.fromEntries(shown) as unknown });
  return text.replaceAll(/[^\x20-\x7e]/g, '?');
}

/**
 * The time of each step so far as a `server-timing` header; of the step that answers the time to its headers. Bounded by
 * the number of steps: prompts of a batch count together.
 */
export function serverTiming(ctx: Pick<Receipted, 'timeline' | 'elapsedMs'>): string {
  const ended = stepsOf(ctx.timeline);
  const open = new Map<string, number>();
  const names = new Set<string>();
  for (const { kind, name, startMs, endMs } of ctx.timeline) {
    if (kind !== 'step') continue;
    names.add(name);
    if (endMs === undefined && !open.has(name)) open.set(name, startMs);
  }
  const metrics: string[] = [];
  for (const name of names) {
    const token = name.replaceAll(/[^\w-]/g, '_');
    const startMs = open.get(name);
    if (startMs === undefined) metrics.push(`${token};dur=${ended[name] ?? 0}`);
    else metrics.push(`${token}-ttfb;dur=${rounded(ctx.elapsedMs() - startMs)}`);
  }
  return metrics.join(', ');
}
