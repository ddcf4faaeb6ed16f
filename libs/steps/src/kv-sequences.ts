import { kvConnector } from '@llm-d/connectors';
import { type RequestContext, type StepDependencies } from '@llm-d/pipeline';

/**
 * Tells whether a request skips encode and prefill: with several sequences a leased hand-off would be read again after
 * the first sequence has released it (design.md decision 17), so decode computes the prompt itself.
 */
export function isServedByDecodeAlone(
  connectorName: string | undefined,
  { kvMultiSequence }: StepDependencies,
): (ctx: RequestContext) => boolean {
  const { isLeased } = kvConnector(connectorName);
  if (!isLeased || kvMultiSequence === 'transfer') return () => false;
  return (ctx) => sequenceCount(ctx) > 1;
}

/** How many sequences a request asks for (`n`, or `best_of` where it is larger); a response has one. */
export function sequenceCount({ api, body }: RequestContext): number {
  if (api === 'responses') return 1;
  const asked = (name: string): number =>
    (api === 'generate' ? body.get('sampling_params')?.get(name) : body.get(name))?.number() ?? 1;
  return Math.max(asked('n'), asked('best_of'));
}
