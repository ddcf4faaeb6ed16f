import { serialKvConnector } from '@llm-d/connectors';
import { apiPaths } from '@llm-d/gateway';
import { type JsonInput } from '@llm-d/json-document';
import { defineStep, type RequestContext } from '@llm-d/pipeline';
import { z } from 'zod';
import { decodeBody } from './decode-body.ts';
import { expireKv, kvSent, settleFailedKv } from './handoffs.ts';
import { isServedByDecodeAlone } from './kv-sequences.ts';
import { connectorName, staleKey } from './params.ts';
import { relayLeg } from './relay-leg.ts';

const type = 'decode';

/** Has a decode worker generate the answer and hands it to the client as it comes. */
export const decode = defineStep({
  type,
  isTerminal: true,
  params: z.strictObject({
    kv_connector: connectorName,
    use_openai_format: staleKey(`has no meaning on ${type}, remove it`),
  }),
  create(params, dependencies) {
    const connector = serialKvConnector(params.kv_connector);
    const isAlone = isServedByDecodeAlone(params.kv_connector, dependencies);

    const kvParams = async (ctx: RequestContext): Promise<JsonInput | undefined> => {
      if (isAlone(ctx)) return undefined;
      const ageMs = performance.now() - ctx.kvReceivedAt;
      if (connector.isLeased && ctx.kvTransferParams && ageMs > dependencies.kvLeaseMs) {
        ctx.log.warn({ ageMs }, 'the KV hand-off is past its lease, prefill runs again');
        expireKv(ctx);
        await ctx.renewKv?.(ctx);
      }
      const decided = connector.decodeParams(ctx.kvTransferParams);
      if (decided.params === undefined && decided.missing.length > 0) {
        ctx.log.warn(
          { missing: decided.missing },
          'prefill answered no whole KV hand-off, decode computes the prompt itself',
        );
      }
      return decided.params;
    };

    return async (ctx) => {
      const kv = await kvParams(ctx);
      try {
        await relayLeg(ctx, dependencies, {
          step: type,
          client: dependencies.gateway,
          path: apiPaths[ctx.api],
          body: decodeBody(ctx, dependencies, kv),
          onSent:
            kv === undefined
              ? undefined
              : kvSent(ctx, dependencies, params.kv_connector, connector),
        });
      } catch (error) {
        settleFailedKv(ctx, error);
        throw error;
      }
      return 'served';
    };
  },
});
