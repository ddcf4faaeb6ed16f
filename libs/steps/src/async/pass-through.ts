import { type RequestContext, type RequestQueue } from '@llm-d/pipeline';
import { type AsyncHeaderNames, tenantHeaderValue } from './async-headers.ts';
import { fairnessHeaders, objectiveHeaders } from './check-params.ts';
import { type AsyncBrokerParams } from './params.ts';
import { type Placement } from './routes.ts';

/** What mode `passthrough` works with. */
export interface PassOptions {
  readonly queue: Pick<RequestQueue, 'acquireQuota'>;
  readonly tenant: string;
  readonly placement: Placement;
  readonly params: Pick<AsyncBrokerParams, 'objectives'>;
  readonly quotaOf: (tenant: string) => number | undefined;
  readonly names: AsyncHeaderNames;
}

/**
 * Lets a request go on under its tenant's quota: who it is and how urgent stands in headers of ours, whatever the client
 * sent. The place in the quota is held until the request is over.
 */
export async function passThrough(ctx: RequestContext, options: PassOptions): Promise<void> {
  const { tenant, placement, params, names } = options;
  const classification = await classify(ctx, options);
  const objective = params.objectives[placement.tierName]?.[classification] ?? '';
  const [objectiveHeader = '', fairnessHeader = ''] = [objectiveHeaders[0], fairnessHeaders[0]];
  const own = [...names.mode, ...names.tenant, ...names.timeout];
  ctx.headers = ctx.headers
    .without([...objectiveHeaders, ...fairnessHeaders, ...own])
    .with([
      ...(objective === '' ? [] : [objectiveHeader, objective]),
      ...[fairnessHeader, tenantHeaderValue(tenant)],
    ]);
}

async function classify(
  ctx: RequestContext,
  { queue, tenant, quotaOf }: PassOptions,
): Promise<'reserved' | 'overflow'> {
  if (quotaOf(tenant) === undefined) return 'reserved';
  const place = await queue.acquireQuota(tenant);
  ctx.atEnd(() => void place.release());
  if (!place.isEnforced) ctx.log.warn({}, 'the quota cannot be asked and is not enforced');
  return place.classification;
}
