import { describe, expect, it } from '@jest/globals';
import { chartCopies } from './chart-copies.ts';
import { chartReadmeText, valueRows } from './chart-readmes.ts';
import { chartSchemaText } from './chart-schemas.ts';
import { chartNames } from './charts.ts';
import { textOf, yamlOf } from './deploy-files.ts';

const howToWrite = 'node --conditions=@llm-d/source tools/deploy-check/src/main.ts';

describe('what is made from other files is up to date:', () => {
  it.each(chartNames)('schema of %s', (chart) => {
    expect({ [howToWrite]: textOf(`deploy/charts/${chart}/values.schema.json`) }).toEqual({
      [howToWrite]: chartSchemaText(chart),
    });
  });

  it.each([...chartNames, 'stack-valkey'])('README of %s', (chart) => {
    expect({ [howToWrite]: textOf(`deploy/charts/${chart}/README.md`) }).toEqual({
      [howToWrite]: chartReadmeText(chart),
    });
  });

  it('a README has every key with the comment above it', () => {
    const values = `# The file.\n\n# First.\na: 1\n# A group.\nb:\n  # Inside,\n  # in two lines.\n  c: [x]\n  d: { e: 1 }\n`;
    expect(valueRows(values)).toEqual([
      { key: 'a', value: '`1`', meaning: 'First.' },
      { key: 'b', value: '', meaning: 'A group.' },
      { key: 'b.c', value: '`[ x ]`', meaning: 'Inside, in two lines.' },
      { key: 'b.d', value: '`{ e: 1 }`', meaning: '' },
    ]);
  });

  it.each(chartCopies())('$to', ({ from, to }) => {
    expect(textOf(to)).toBe(textOf(from));
  });

  it.each([...chartNames, 'stack-valkey', 'common'])('version of %s', (chart) => {
    const { version } = JSON.parse(textOf('package.json')) as { version: string };
    const file = yamlOf(`deploy/charts/${chart}/Chart.yaml`) as {
      version: string;
      appVersion: string;
      dependencies?: { version: string; repository: string }[];
    };
    expect([
      file.version,
      file.appVersion,
      ...(file.dependencies ?? [])
        .filter(({ repository }) => repository.startsWith('file:'))
        .map((one) => one.version),
    ]).toEqual(expect.not.arrayContaining([expect.not.stringMatching(`^${version}$`)]));
  });
});
