import { existsSync, readdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { configKeys, flagNames } from '@llm-d/config';
import { valueSets } from './charts.ts';
import { pathOf, textOf } from './deploy-files.ts';

const pages = [
  'docs/operations.md',
  'docs/migrating-from-the-go-coordinator.md',
  ...readdirSync(pathOf('docs/deployment')).map((name) => `docs/deployment/${name}`),
];

/** The anchor that a heading has on GitHub. */
const anchorOf = (heading: string): string =>
  heading
    .toLowerCase()
    .replaceAll(/[^\w\s-]/g, '')
    .replaceAll(/\s/g, '-');

describe.each(pages)('%s', (page) => {
  it('links to what is there', () => {
    for (const [, target = ''] of textOf(page).matchAll(/\]\(([^)]+)\)/g)) {
      const [file = '', anchor] = target.split('#');
      const path = file === '' ? page : join(dirname(page), file);
      expect({ target, isThere: existsSync(pathOf(path)) }).toEqual({ target, isThere: true });
      if (anchor === undefined) continue;
      const headings = [...textOf(path).matchAll(/^#+ (.*)$/gm)].map(([, text = '']) =>
        anchorOf(text),
      );
      expect({ target, headings }).toEqual({ target, headings: expect.arrayContaining([anchor]) });
    }
  });
});

describe('docs/migrating-from-the-go-coordinator.md', () => {
  const text = textOf('docs/migrating-from-the-go-coordinator.md');

  it.each(configKeys)('has the key $path, or its whole section', ({ path, section }) => {
    const isThere = [path, `${section}.*`].some((name) => text.includes(`\`${name}\``));
    expect({ path, isThere }).toMatchObject({ isThere: true });
  });

  it.each(flagNames.filter((name) => name !== 'v'))('has the flag --%s', (name) => {
    expect(text).toContain(`\`--${name}\``);
  });
});

it('docs/deployment/kubernetes.md has every value set', () => {
  for (const name of valueSets) {
    expect(textOf('docs/deployment/kubernetes.md')).toContain(`\`${name}\``);
  }
});
