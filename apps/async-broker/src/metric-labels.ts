/** Prefixes: what llm-d-async counts too has its names, the rest is ours (async-broker.md 3.7, 4.16). */
export const names = { upstream: 'llm_d_async_', own: 'llm_d_async_broker_' } as const;

/** Labels of a queue in llm-d-async. There is one pool, and a queue's id is its name. */
export const queueLabels = ['queue_id', 'queue_name', 'pool_name'] as const;
export type QueueLabel = (typeof queueLabels)[number];

/** The one pool of dispatches. */
export const poolName = 'default';

/** The labels of a lane. */
export function queueLabel(lane: string): Record<QueueLabel, string> {
  return { queue_id: lane, queue_name: lane, pool_name: poolName };
}
