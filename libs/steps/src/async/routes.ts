import { type QueuedRequest } from '@llm-d/pipeline';
import { type AsyncBrokerParams } from './params.ts';

/** Where a request queues and which share of the service it may have. */
export interface Placement {
  readonly lane: string;
  /** As configured; the key of `objectives`. */
  readonly tierName: string;
  readonly tier: QueuedRequest['tier'];
}

type RouteParams = Pick<AsyncBrokerParams, 'routes' | 'default_queue' | 'default_tier'>;

/** The first route whose model and tenant fit; what it leaves out comes from the defaults (2.3). */
export function placementOf(params: RouteParams, model: string, tenant: string): Placement {
  const route = params.routes.find(
    (one) =>
      (one.model === '' || one.model === model) && (one.tenant === '' || one.tenant === tenant),
  );
  const tierName = route?.tier ?? params.default_tier;
  const isKnown = tierName === 'interactive' || tierName === 'async';
  return {
    lane: route?.queue ?? params.default_queue,
    tierName,
    tier: isKnown ? tierName : 'batch',
  };
}

/** All queues that requests may be sent to, the default one first. */
export function lanesOf({ routes, default_queue: standard }: RouteParams): string[] {
  return [...new Set([standard, ...routes.flatMap(({ queue }) => queue ?? [])])];
}
