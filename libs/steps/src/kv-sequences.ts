import { kvConnector } from '@llm-d/connectors';
import { type JsonSpan } from '@llm-d/json-document';
import { BadRequestError, type RequestContext, type StepDependencies } from '@llm-d/pipeline';
import { promptLogprobsField } from './prompt-logprobs.ts';

/**
 * Tells whether a request skips encode and prefill and is computed by decode, without transfer params: with several
 * sequences a leased hand-off would be read again after the first sequence has released it (design.md decision 17), and
 * log probabilities of the prompt exist only where the prompt is computed.
 *
 * @returns a function that throws BadRequestError for such a request where decode cannot compute a prompt.
 */
export function isServedByDecodeAlone(
  connectorName: string | undefined,
  { kvMultiSequence }: StepDependencies,
): (ctx: RequestContext) => boolean {
  const connector = kvConnector(connectorName);
  const isSingle = (connector.isConcurrent || connector.isLeased) && kvMultiSequence === 'local';
  return (ctx) => {
    const field = promptLogprobsField(ctx) ?? (isSingle ? sequencesField(ctx) : undefined);
    if (field !== undefined && connector.isConcurrent) {
      throw new BadRequestError(`${field} is not served by this deployment`, { param: field });
    }
    return field !== undefined;
  };
}

/** The field that asks for several sequences, if there is one. */
function sequencesField(ctx: RequestContext): string | undefined {
  if (sequenceCount(ctx) <= 1) return undefined;
  return ctx.api === 'generate' ? 'sampling_params.n' : 'n';
}

/** How many sequences a request asks for (`n`, or `best_of` where it is larger); a response has one. */
export function sequenceCount({ api, body }: RequestContext): number {
  if (api === 'responses') return 1;
  const asked = (name: string): number =>
    countOf(api === 'generate' ? body.get('sampling_params')?.get(name) : body.get(name));
  return Math.max(asked('n'), asked('best_of'));
}

/** How many are asked for, 1 when nothing is said. Engines read a text as the number that it spells. */
export function countOf(value: JsonSpan | undefined): number {
  return value?.number() ?? (Number(value?.text() ?? 1) || 1);
}
