import { concurrentKvConnector, ecConnector, EndpointError } from '@llm-d/connectors';
import { apiPaths, legApi, pinHeaders, reservedEndpointHeader } from '@llm-d/gateway';
import { BadUpstreamAnswerError, defineStep, type RequestContext } from '@llm-d/pipeline';
import { z } from 'zod';
import { decodeBody } from './decode-body.ts';
import { isServedByDecodeAlone } from './kv-sequences.ts';
import { callLeg, captureHeaders, type ReadLeg } from './leg.ts';
import { connectorName, usesOpenAiFormat } from './params.ts';
import { mergedEcParams, prefillBody, type PrefillTransfer } from './prefill-body.ts';
import { relayLeg } from './relay-leg.ts';
import { runLimited } from './run-limited.ts';

const type = 'prefill-decode';

/**
 * Runs prefill and decode at the same time, for engines whose prefill answers only when decode has come: asks the
 * gateway for a prefill pod, then sends prefill to exactly that pod and tells decode where it is (coordinator.md 4.7).
 */
export const prefillDecode = defineStep({
  type,
  isTerminal: true,
  params: z.strictObject({
    use_openai_format: usesOpenAiFormat,
    kv_connector: connectorName,
    ec_connector: connectorName,
  }),
  create(params, dependencies) {
    const { gateway: client, wire, bootstrapPort } = dependencies;
    const kv = concurrentKvConnector(params.kv_connector);
    const ec = ecConnector(params.ec_connector);
    const refuseUndivided = isServedByDecodeAlone(params.kv_connector, dependencies);
    const notPassed = ['prefer', ...pinHeaders, wire.pinHeader, ...kv.conflictingHeaders];

    /** Has the gateway choose a prefill pod for this body without sending it there. */
    const reserve = async (ctx: RequestContext, leg: ReadLeg) => {
      const { headers } = await callLeg(
        ctx,
        dependencies,
        {
          ...leg,
          name: `${type}[reserve]`,
          headers: ['prefer', 'reserve-endpoint'],
          idSuffix: 'reserve',
          // The router answers without a body; older ones with an empty 200.
          accepted: [200, 204],
        },
        (answer) => answer,
      );
      captureHeaders(ctx, dependencies, [{ headers }]);
      const endpoint = String(headers[reservedEndpointHeader] ?? '');
      try {
        return { endpoint, bootstrap: kv.bootstrap(endpoint, bootstrapPort) };
      } catch (cause) {
        if (!(cause instanceof EndpointError)) throw cause;
        throw new BadUpstreamAnswerError(`${type}[reserve]`, cause.message, { cause });
      }
    };

    return async (ctx) => {
      refuseUndivided(ctx);
      const api = legApi(ctx.api, params.use_openai_format);
      const transfer: PrefillTransfer = {
        kv: undefined,
        ec: mergedEcParams(ctx, ec, type),
        hasAllSequences: true,
      };
      const clientHeaders = ctx.headers.without(notPassed);
      const prefillLeg: ReadLeg = {
        name: `${type}[prefill]`,
        step: type,
        client,
        path: apiPaths[api],
        body: prefillBody(ctx, api, transfer, dependencies),
        phase: 'prefill',
        clientHeaders,
      };
      const { endpoint, bootstrap } = await reserve(ctx, prefillLeg);
      const body = prefillBody(ctx, api, { ...transfer, bootstrap }, dependencies);
      ctx.body = ctx.body.with(bootstrap);
      const answer = decodeBody(ctx, dependencies, undefined);

      let isAnswered = false;
      const sendPrefill = async (signal: AbortSignal): Promise<void> => {
        const pinned = { ...prefillLeg, body, signal, headers: [wire.pinHeader, endpoint] };
        try {
          // The answer says nothing that decode does not know by itself.
          await callLeg(ctx, dependencies, { ...pinned, idSuffix: 'prefill' }, () => undefined);
        } catch (error) {
          if (!isAnswered) throw error;
          ctx.log.warn({ err: error }, 'prefill failed after decode had answered');
        }
      };
      const sendDecode = async (signal: AbortSignal): Promise<void> => {
        const leg = { step: type, client, path: apiPaths[ctx.api], clientHeaders, signal };
        await relayLeg(ctx, dependencies, { ...leg, body: answer });
        isAnswered = true;
      };
      await runLimited([sendPrefill, sendDecode], 2, ctx.signal, (send, _index, signal) =>
        send(signal),
      );
      return 'served';
    };
  },
});
