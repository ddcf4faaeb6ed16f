import { oneOf } from '@llm-d/config';
import { apiPaths } from '@llm-d/gateway';
import { type JsonRaw } from '@llm-d/json-document';
import { defineStep, type RequestContext, type StepDependencies } from '@llm-d/pipeline';
import { z } from 'zod';
import { chatTokens } from './chat-tokens.ts';
import { promptEdit } from './decode-body.ts';
import { staleKey } from './params.ts';
import { relayLeg } from './relay-leg.ts';

const type = 'conditional-decode';

/** 412: no decode worker holds enough of the prompt. */
const notHere = 412;

/** Asks for a decode worker that already holds the prompt; it answers at once, or the pipeline goes on. */
export const conditionalDecode = defineStep({
  type,
  params: z.strictObject({
    on_failure: oneOf('relay', 'continue')
      .prefault('relay')
      .describe(
        "What a 429 or a 5xx of this call is. `relay`: the client's answer, as upstream has it. `continue`: the next step runs; nothing was generated, so that one dead decode pod is survived.",
      ),
    use_openai_format: staleKey(`has no meaning on ${type}, remove it`),
  }),
  create:
    ({ on_failure: onFailure }, dependencies) =>
    async (ctx) => {
      const isServed = await relayLeg(ctx, dependencies, {
        step: type,
        client: dependencies.gateway,
        path: apiPaths[ctx.api],
        body: probeBody(ctx, dependencies),
        headers: ['prefer', 'if-available'],
        deferStatus: notHere,
        defersFailures: onFailure === 'continue',
      });
      return isServed ? 'served' : 'continue';
    },
});

function probeBody(ctx: RequestContext, dependencies: StepDependencies): JsonRaw {
  switch (ctx.api) {
    case 'chat':
      return ctx.body.with(chatTokens(ctx, dependencies)).toRaw();
    case 'completions':
      return ctx.body.with(promptEdit(ctx)).toRaw();
    case 'generate':
    case 'responses':
      return ctx.body.toRaw();
  }
}
