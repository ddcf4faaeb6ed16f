import { defineStep, type RequestContext, type Step, type StepDependencies } from '@llm-d/pipeline';
import { invalidRequest } from './async-error.ts';
import { type AsyncHeaderNames, readMode, readTenant } from './async-headers.ts';
import { checkParams } from './check-params.ts';
import { headerValues } from './header-values.ts';
import { asyncBrokerParams, type AsyncBrokerParams } from './params.ts';
import { passThrough } from './pass-through.ts';
import { enterQueue } from './enter-queue.ts';
import { lanesOf, placementOf } from './routes.ts';
import { storedRequests } from './stored-requests.ts';
import { timeoutBounds } from './timeouts.ts';

const type = 'async-broker';

/**
 * Set on dispatches by the workers. It gives nothing to who forges it: a request with it is served like any other, but
 * never queued.
 */
const dispatchHeader = 'x-llm-d-async-dispatch';

/** Queues requests whose client asks for it, and serves those that need no queue under their tenant's quota. */
export const asyncBroker = defineStep({
  type,
  isEntrance: true,
  params: asyncBrokerParams,
  create: createAsyncBroker,
});

function createAsyncBroker(params: AsyncBrokerParams, { asyncHost, log }: StepDependencies): Step {
  checkParams(params);
  if (!asyncHost) throw new Error('this program has no queue');
  const names: AsyncHeaderNames = {
    mode: params.mode_header,
    tenant: params.tenant_header,
    timeout: params.timeout_header,
  };
  const bounds = {
    enqueue: timeoutBounds('enqueue', params.timeouts.enqueue),
    wait: timeoutBounds('wait', params.timeouts.wait),
  };
  const quotaOf = (tenant: string): number | undefined =>
    (Object.hasOwn(params.quota.limits, tenant) && params.quota.limits[tenant]) || undefined;
  const queue = asyncHost.openQueue({
    url: params.redis_url,
    lanes: lanesOf(params),
    order: params.ordering,
    quotaOf,
    resultMs: params.result_ttl_seconds * 1_000,
    fetchGraceMs: params.fetch_grace_seconds * 1_000,
    idConflict: params.id_conflict,
    rerunOnRetry: params.rerun_on_retry,
    ackDurability: params.ack_durability,
    appendOnlyFile: params.append_only_file,
    cancelActiveOnDisconnect: params.cancel_active_on_disconnect,
    deleteActive: params.delete_active,
    compatCounters: params.quota.compat_counters
      ? { attribute: params.quota.attribute, windowSeconds: params.quota.window_seconds }
      : undefined,
    maxLaneBacklog: params.max_lane_backlog,
    maxTenantBacklog: params.max_tenant_backlog,
    maxHeldWaits: params.max_held_waits,
  });
  asyncHost.serveRequests(storedRequests(queue, names, params));
  const { objectives } = params;
  // Which of them outranks the other stands elsewhere: an operator can compare.
  if (Object.keys(objectives).length > 0) log.info({ objectives }, 'objectives by tier');

  return async (ctx) => {
    const mode = readMode(ctx.rawHeaders, names);
    if (mode === undefined) return 'continue';
    ctx.asyncMode = mode;
    if (mode !== 'passthrough') checkQueued(ctx, params);
    if (ctx.model === '') throw invalidRequest('model is required', { param: 'model' });
    const tenant = readTenant(ctx.rawHeaders, names);
    const placement = placementOf(params, ctx.model, tenant);
    if (mode === 'passthrough') {
      await passThrough(ctx, { queue, tenant, placement, params, quotaOf, names });
      return 'continue';
    }
    await enterQueue(ctx, { queue, mode, tenant, placement, params, bounds: bounds[mode], names });
    return 'served';
  };
}

/** What may be passed but not queued. */
function checkQueued(
  { api, isStreaming, rawHeaders }: RequestContext,
  params: AsyncBrokerParams,
): void {
  if (api !== 'chat' && api !== 'completions') {
    throw invalidRequest('only chat completions and completions can be queued');
  }
  if (headerValues(rawHeaders, [dispatchHeader]).length > 0) {
    throw invalidRequest('a dispatched request cannot be queued again');
  }
  if (isStreaming && params.queued_streams === 'refuse') {
    throw invalidRequest('a queued request cannot be streamed', { param: 'stream' });
  }
}
