import { type BootstrapEdits, type EcConnector, EcConflictError } from '@llm-d/connectors';
import { type Api } from '@llm-d/gateway';
import { type JsonInput, jsonRaw, type JsonRaw } from '@llm-d/json-document';
import {
  BadUpstreamAnswerError,
  type RequestContext,
  type StepDependencies,
} from '@llm-d/pipeline';
import { chatTokens } from './chat-tokens.ts';
import { sequenceCount } from './kv-sequences.ts';
import { promptEdit } from './decode-body.ts';
import { features } from './features.ts';
import { singleTokenCap } from './single-token-cap.ts';

/** What the connectors add to a prefill leg; undefined = no field. */
export interface PrefillTransfer {
  readonly kv: JsonInput | undefined;
  readonly ec: JsonRaw | undefined;
  /** Top-level members in place of KV transfer params. */
  readonly bootstrap?: BootstrapEdits;
  /** Whether prefill runs as many sequences as decode: each has its own hand-off then. */
  readonly hasAllSequences?: boolean;
}

/** The body of a prefill leg: prompt and single-token cap, with what the connectors add. */
export function prefillBody(
  ctx: RequestContext,
  api: Api,
  transfer: PrefillTransfer,
  dependencies: StepDependencies,
): JsonRaw {
  const { kv, ec, bootstrap, hasAllSequences = false } = transfer;
  switch (api) {
    case 'chat': {
      // One sequence is enough: the others would pin blocks that nobody fetches.
      const isReduced = !hasAllSequences && sequenceCount(ctx) > 1;
      const single = isReduced ? { n: 1, best_of: undefined } : {};
      const edits = {
        ...singleTokenCap.chat,
        ...single,
        kv_transfer_params: kv,
        ec_transfer_params: ec,
        ...chatTokens(ctx, dependencies),
        ...bootstrap,
      };
      return ctx.body.with(edits).toRaw();
    }
    case 'responses': {
      const edits = {
        ...singleTokenCap.responses,
        kv_transfer_params: kv,
        ec_transfer_params: ec,
        ...bootstrap,
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
        ...bootstrap,
      });
    case 'generate':
      return generateBody(ctx, transfer, dependencies);
  }
}

function generateBody(
  ctx: RequestContext,
  { kv, ec, bootstrap }: PrefillTransfer,
  { wire }: StepDependencies,
): JsonRaw {
  const params = { kv_transfer_params: kv, ec_transfer_params: ec };
  const isGiven = kv !== undefined || ec !== undefined;
  const isTopLevel = !isGiven || wire.generateTransferParams === 'top-level';
  return jsonRaw({
    request_id: ctx.requestId,
    model: ctx.model,
    token_ids: ctx.tokenIds?.raw ?? [],
    ...(isTopLevel ? params : {}),
    features: features(ctx.media, { hasKwargs: true }),
    ...singleTokenCap.generate,
    ...(isTopLevel ? {} : { sampling_params: { max_tokens: 1, extra_args: params } }),
    ...bootstrap,
  });
}

/**
 * `ec_transfer_params` of the prefill leg.
 *
 * @throws BadUpstreamAnswerError when two encode answers contradict each other.
 */
export function mergedEcParams(
  ctx: RequestContext,
  connector: EcConnector,
  step: string,
): JsonRaw | undefined {
  try {
    return connector.prefillParams(ctx.ecTransferParams);
  } catch (cause) {
    if (!(cause instanceof EcConflictError)) throw cause;
    throw new BadUpstreamAnswerError(step, cause.message, { cause });
  }
}
