import { ecConnector, serialKvConnector } from '@llm-d/connectors';
import { apiPaths, legApi } from '@llm-d/gateway';
import { defineStep, type RequestContext } from '@llm-d/pipeline';
import { z } from 'zod';
import { ecSent, offerKv } from './handoffs.ts';
import { isServedByDecodeAlone } from './kv-sequences.ts';
import { captureHeaders, objectAnswer, readLeg } from './leg.ts';
import { connectorName, usesOpenAiFormat } from './params.ts';
import { mergedEcParams, prefillBody } from './prefill-body.ts';

const type = 'prefill';

/** Has a prefill worker compute the KV cache of the prompt and keeps what decode needs to fetch it. */
export const prefill = defineStep({
  type,
  params: z.strictObject({
    use_openai_format: usesOpenAiFormat,
    kv_connector: connectorName,
    ec_connector: connectorName,
  }),
  create(params, dependencies) {
    const kv = serialKvConnector(params.kv_connector);
    const ec = ecConnector(params.ec_connector);
    const isAlone = isServedByDecodeAlone(params.kv_connector, dependencies);

    const send = async (ctx: RequestContext): Promise<void> => {
      const api = legApi(ctx.api, params.use_openai_format);
      const transfer = { kv: kv.prefillParams(), ec: mergedEcParams(ctx, ec, type) };
      const answer = await readLeg(ctx, dependencies, {
        name: type,
        step: type,
        client: dependencies.gateway,
        path: apiPaths[api],
        body: prefillBody(ctx, api, transfer, dependencies),
        phase: 'prefill',
        onSent: ecSent(ctx),
      });
      captureHeaders(ctx, dependencies, [answer]);
      const answered = objectAnswer(type, answer).get('kv_transfer_params');
      const isGiven = answered?.kind === 'object' && !answered.isEmpty();
      ctx.kvTransferParams = isGiven ? answered : undefined;
      ctx.kvReceivedAt = performance.now();
      if (isGiven) offerKv(ctx, dependencies, params.kv_connector, kv, answered);
    };

    return async (ctx) => {
      if (isAlone(ctx)) return 'continue';
      await send(ctx);
      ctx.renewKv = send;
      return 'continue';
    };
  },
});
