import { describe, expect, it } from '@jest/globals';
import { planNode } from './node-plan.mjs';

const engines = '>=22.19';

describe('planNode', () => {
  it.each([
    ['the bundled Node before a newer one of the system', '24.21.0', '26.0.0', 'bundled'],
    ['the bundled Node when the system has an old one', '24.21.0', '20.20.2', 'bundled'],
    ['the system Node where none is bundled', undefined, '24.1.0', 'system'],
    ['the oldest Node that will do', undefined, '22.19.0', 'system'],
    ['the system Node when the bundled one is too old', '22.9.0', '22.20.1', 'system'],
  ])('uses %s', (_name, bundled, system, use) => {
    expect(planNode({ engines, bundled, system })).toEqual({ use });
  });

  it.each(['18.20.4', '22.9.0', '22.18.9'])(
    'refuses a system Node %s in one sentence',
    (system) => {
      const { problem } = planNode({ engines, bundled: undefined, system });
      expect(problem).toContain(`Node 22.19 or newer is needed and this is ${system}`);
    },
  );
});
