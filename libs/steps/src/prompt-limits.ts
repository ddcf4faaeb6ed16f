import { BadRequestError, type RequestContext } from '@llm-d/pipeline';

/** `max_total_tokens` and `max_total_placeholder_tokens` of render; 0 = unlimited. */
export interface PromptLimits {
  readonly maxTokens: number;
  readonly maxPlaceholderTokens: number;
}

/** @throws BadRequestError with both numbers. */
export function checkTokenCount(count: number, { maxTokens }: PromptLimits): void {
  if (maxTokens > 0 && count > maxTokens) {
    throw new BadRequestError(`the prompt has ${count} tokens, the limit is ${maxTokens}`, {
      code: 'PROMPT_TOO_LONG',
    });
  }
}

/** @throws BadRequestError with both numbers. */
export function checkPlaceholders(
  ctx: RequestContext,
  { maxPlaceholderTokens }: PromptLimits,
): void {
  // Each length is at most the prompt's, so that the sum stays exact.
  const sum = ctx.media.reduce((total, { placeholder }) => total + (placeholder?.length ?? 0), 0);
  if (maxPlaceholderTokens > 0 && sum > maxPlaceholderTokens) {
    throw new BadRequestError(
      `the media of the prompt take ${sum} tokens, the limit is ${maxPlaceholderTokens}`,
      { code: 'PROMPT_TOO_LONG' },
    );
  }
}
