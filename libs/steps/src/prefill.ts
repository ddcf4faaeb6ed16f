import { ecConnector, EcConflictError, kvConnector } from '@llm-d/connectors';
import { type Api, apiPaths, legApi } from '@llm-d/gateway';
import { type JsonInput, jsonRaw, type JsonRaw } from '@llm-d/json-document';
import {
  BadUpstreamAnswerError,
  defineStep,
  type RequestContext,
  type StepDependencies,
} from '@llm-d/pipeline';
import { z } from 'zod';
import { chatTokens } from './chat-tokens.ts';
import { promptEdit } from './decode-body.ts';
import { features } from './features.ts';
import { isServedByDecodeAlone, sequenceCount } from './kv-sequences.ts';
import { captureHeaders, objectAnswer, readLeg } from './leg.ts';
import { connectorName, usesOpenAiFormat } from './params.ts';
import { singleTokenCap } from './single-token-cap.ts';

const type = 'prefill';

interface TransferParams {
  readonly kv: JsonInput;
  readonly ec: JsonRaw | undefined;
}

/** Has a prefill worker compute the KV cache of the prompt and keeps what decode needs to fetch it. */
export const prefill = defineStep({
  type,
  params: z.strictObject({
    use_openai_format: usesOpenAiFormat,
    kv_connector: connectorName,
    ec_connector: connectorName,
  }),
  create(params, dependencies) {
    const kv = kvConnector(params.kv_connector);
    const ec = ecConnector(params.ec_connector);
    const isAlone = isServedByDecodeAlone(params.kv_connector, dependencies);

    const send = async (ctx: RequestContext): Promise<void> => {
      const api = legApi(ctx.api, params.use_openai_format);
      const transfer = {
        kv: kv.prefillParams(),
        ec: merged(() => ec.prefillParams(ctx.ecTransferParams)),
      };
      const answer = await readLeg(ctx, dependencies, {
        name: type,
        step: type,
        client: dependencies.gateway,
        path: apiPaths[api],
        body: prefillBody(ctx, api, transfer, dependencies),
        phase: 'prefill',
      });
      captureHeaders(ctx, dependencies, [answer]);
      const answered = objectAnswer(type, answer).get('kv_transfer_params');
      const isGiven = answered?.kind === 'object' && !answered.isEmpty();
      ctx.kvTransferParams = isGiven ? answered : undefined;
      ctx.kvReceivedAt = performance.now();
    };

    return async (ctx) => {
      if (isAlone(ctx)) return 'continue';
      await send(ctx);
      ctx.renewKv = () => send(ctx);
      return 'continue';
    };
  },
});

function prefillBody(
  ctx: RequestContext,
  api: Api,
  transfer: TransferParams,
  dependencies: StepDependencies,
): JsonRaw {
  const { kv, ec } = transfer;
  switch (api) {
    case 'chat': {
      // One sequence is enough: the others would pin blocks that nobody fetches.
      const single = sequenceCount(ctx) > 1 ? { n: 1, best_of: undefined } : {};
      const edits = {
        ...singleTokenCap.chat,
        ...single,
        kv_transfer_params: kv,
        ec_transfer_params: ec,
        ...chatTokens(ctx, dependencies),
      };
      return ctx.body.with(edits).toRaw();
    }
    case 'responses': {
      const edits = {
        ...singleTokenCap.responses,
        kv_transfer_params: kv,
        ec_transfer_params: ec,
      };
      return ctx.body.with(edits).toRaw();
    }
    case 'completions':
      return jsonRaw({
        request_id: ctx.requestId,
        model: ctx.model,
        prompt: promptEdit(ctx).prompt ?? ctx.body.get('prompt'),
        kv_transfer_params: kv,
        ...singleTokenCap.completions,
      });
    case 'generate':
      return generateBody(ctx, transfer, dependencies);
  }
}

function generateBody(
  ctx: RequestContext,
  { kv, ec }: TransferParams,
  { wire }: StepDependencies,
): JsonRaw {
  const params = { kv_transfer_params: kv, ec_transfer_params: ec };
  const isTopLevel = wire.generateTransferParams === 'top-level';
  return jsonRaw({
    request_id: ctx.requestId,
    model: ctx.model,
    token_ids: ctx.tokenIds?.raw ?? [],
    ...(isTopLevel ? params : {}),
    features: features(ctx.media, { hasKwargs: true }),
    ...singleTokenCap.generate,
    ...(isTopLevel ? {} : { sampling_params: { max_tokens: 1, extra_args: params } }),
  });
}

function merged<T>(merge: () => T): T {
  try {
    return merge();
  } catch (cause) {
    if (!(cause instanceof EcConflictError)) throw cause;
    throw new BadUpstreamAnswerError(type, cause.message, { cause });
  }
}
