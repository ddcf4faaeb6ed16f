import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { describeParams } from '@llm-d/config';
import { builtInSteps } from '@llm-d/steps';

const root = join(import.meta.dirname, '../../..');
const example = readFileSync(join(root, 'deploy/compose/coordinator.yaml'), 'utf8');

describe.each(builtInSteps)('the step $type', ({ type, params }) => {
  it('is shown in deploy/compose/coordinator.yaml with its own parameters', () => {
    const section = example.split(`- type: ${type}\n`)[1]?.split('- type:')[0];
    const names = [...(section ?? '').matchAll(/^ {4}(?: {4}#?|# {4})([a-z_]+):/gm)].map(
      ([, name]) => name,
    );
    expect(section).toBeDefined();
    const own = describeParams(params).filter(({ isInherited }) => !isInherited);
    expect(names.toSorted()).toEqual(own.map(({ name }) => name).toSorted());
  });
});
