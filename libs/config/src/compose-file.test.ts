import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { configKeys } from './keys.ts';
import { loadConfig } from './load-config.ts';
import { type FileMapping, readFileContent } from './read-file.ts';
import { readYaml } from './read-yaml.ts';
import { coordinatorConfig } from './schema.ts';

const root = join(import.meta.dirname, '../../..');
const exampleFile = join(root, 'deploy/compose/coordinator.yaml');

describe('deploy/compose/coordinator.yaml', () => {
  const text = readFileSync(exampleFile, 'utf8');
  const withOptionalKeys = text.replaceAll(/^( *)#((?: {2})*[a-z-])/gm, '$1$2');

  it('loads without warnings', () => {
    const { config, warnings } = loadConfig({ file: exampleFile, strict: true });
    expect(warnings).toEqual([]);
    expect(config.pipeline.steps.map((step) => step.type)).toEqual([
      'async-broker',
      'replace-media-urls',
      'render',
      'encode',
      'prefill',
      'decode',
    ]);
  });

  it('shows every key, the optional ones with their defaults', () => {
    const { values, unknownKeys } = readFileContent(readYaml(withOptionalKeys, 'coordinator.yaml'));
    expect(unknownKeys).toEqual([]);
    for (const { path } of configKeys) {
      const value = path
        .split('.')
        .reduce<unknown>((section, name) => (section as FileMapping)[name], values);
      expect({ path, isShown: value !== undefined }).toEqual({ path, isShown: true });
    }
    const shown = coordinatorConfig.parse(values);
    const { config } = loadConfig({ file: exampleFile });
    const steps = expect.any(Array);
    expect(shown).toEqual({ ...config, pipeline: { ...config.pipeline, steps } });
  });
});
