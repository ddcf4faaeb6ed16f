import { describe, expect, it } from '@jest/globals';
import { coordinatorConfig } from './schema.ts';
import { stepsWithDefaults } from './step-params.ts';

function pipelineWith(...steps: { type: string; params?: Record<string, unknown> }[]) {
  return coordinatorConfig.parse({
    gateway: { address: 'http://g' },
    pipeline: { kv_connector: 'kv-nixl', use_openai_format: false, steps },
  }).pipeline;
}

describe('stepsWithDefaults', () => {
  it.each([
    { type: 'encode', isFormatted: true },
    { type: 'prefill', isFormatted: true },
    { type: 'prefill-decode', isFormatted: true },
    { type: 'decode', isFormatted: false },
    { type: 'conditional-decode', isFormatted: false },
    { type: 'render', isFormatted: false },
  ])('gives $type the connectors, and use_openai_format: $isFormatted', ({ type, isFormatted }) => {
    expect(stepsWithDefaults(pipelineWith({ type }))).toEqual([
      {
        type,
        params: {
          kv_connector: 'kv-nixl',
          ec_connector: 'ec-shared-storage',
          ...(isFormatted ? { use_openai_format: false } : {}),
        },
      },
    ]);
  });

  it("keeps a step's own values, but not those without a value", () => {
    const params = { kv_connector: '', ec_connector: null, use_openai_format: true, own: 1 };
    expect(stepsWithDefaults(pipelineWith({ type: 'prefill', params }))[0]?.params).toEqual({
      kv_connector: '',
      ec_connector: 'ec-shared-storage',
      use_openai_format: true,
      own: 1,
    });
  });

  it('leaves the configuration as it is and adds no other key of the pipeline', () => {
    const pipeline = pipelineWith({ type: 'decode' });
    const [step] = stepsWithDefaults(pipeline);
    expect(pipeline.steps).toEqual([{ type: 'decode', params: {} }]);
    expect(step?.params).not.toHaveProperty('forward_response_headers');
  });
});
