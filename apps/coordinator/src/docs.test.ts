import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { builtInSteps } from '@llm-d/steps';
import { z } from 'zod';

const root = join(import.meta.dirname, '../../..');
const docs = readFileSync(join(root, 'docs/configuration.md'), 'utf8');
const example = readFileSync(join(root, 'deploy/compose/coordinator.yaml'), 'utf8');

/** Keys that the pipeline section hands to its steps. */
const shared = ['use_openai_format', 'kv_connector', 'ec_connector'];

/** Parameters with their defaults as the documentation spells them; keys that are refused are left out. */
function paramsOf(schema: z.ZodType): { name: string; standard: string }[] {
  if (!(schema instanceof z.ZodObject)) return [];
  return Object.entries<z.ZodType>(schema.shape)
    .filter(([, param]) => !(param instanceof z.ZodOptional && isRefused(param)))
    .map(([name, param]) => {
      if (shared.includes(name)) return { name, standard: 'pipeline' };
      if (!(param instanceof z.ZodPrefault)) return { name, standard: 'required' };
      const { defaultValue } = param.def;
      const isText = typeof defaultValue === 'string';
      return { name, standard: `\`${isText ? defaultValue : JSON.stringify(defaultValue)}\`` };
    });
}

function isRefused(param: z.ZodOptional): boolean {
  return param.def.innerType instanceof z.ZodUndefined;
}

describe.each(builtInSteps)('the step $type', ({ type, params }) => {
  const expected = paramsOf(params);

  it('has its parameters and their defaults in docs/configuration.md', () => {
    const section = docs.split(`### \`${type}\`\n`)[1]?.split('\n#')[0] ?? '';
    const rows = [...section.matchAll(/^\| `([a-z_]+)` +\| (\S.*?) +\| \S/gm)];
    expect(rows.map(([, name, standard]) => ({ name, standard }))).toEqual(expected);
  });

  it('is shown in deploy/compose/coordinator.yaml with its own parameters', () => {
    const section = example.split(`- type: ${type}\n`)[1]?.split('- type:')[0];
    const names = [...(section ?? '').matchAll(/^ {4}(?: {4}#?|# {4})([a-z_]+):/gm)].map(
      ([, name]) => name,
    );
    expect(section).toBeDefined();
    const own = expected.map(({ name }) => name).filter((name) => !shared.includes(name));
    expect(names.toSorted()).toEqual(own.toSorted());
  });
});
