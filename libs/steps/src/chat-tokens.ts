import { type JsonInput } from '@llm-d/json-document';
import { type RequestContext, type StepDependencies } from '@llm-d/pipeline';
import { features } from './features.ts';

/** The `tokens` object that older endpoint pickers read from chat bodies (`pipeline.wire.chat_tokens`), as an edit. */
export function chatTokens(
  ctx: Pick<RequestContext, 'tokenIds' | 'media'>,
  { wire }: StepDependencies,
): { tokens?: JsonInput | undefined } {
  if (!wire.hasChatTokens || !ctx.tokenIds) return {};
  return {
    tokens: { token_ids: ctx.tokenIds.raw, features: features(ctx.media, { hasKwargs: false }) },
  };
}
