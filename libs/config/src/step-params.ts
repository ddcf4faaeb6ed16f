import { type CoordinatorConfig } from './schema.ts';

/** Steps whose body shape depends on `use_openai_format`; others have no such key. */
const formattedSteps = new Set(['encode', 'prefill', 'prefill-decode']);

/**
 * The steps with the defaults of the pipeline section in the params that lack them (coordinator.md
 * 7.6). A param without a value counts as absent.
 */
export function stepsWithDefaults(
  pipeline: CoordinatorConfig['pipeline'],
): CoordinatorConfig['pipeline']['steps'] {
  return pipeline.steps.map(({ type, params }) => ({
    type,
    params: {
      kv_connector: pipeline.kvConnector,
      ec_connector: pipeline.ecConnector,
      ...(formattedSteps.has(type) && { use_openai_format: pipeline.usesOpenAiFormat }),
      ...Object.fromEntries(Object.entries(params).filter(([, value]) => value !== null)),
    },
  }));
}
