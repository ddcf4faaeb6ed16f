import { readFileSync } from 'node:fs';
import { configKeys, describeParams } from '@llm-d/config';
import { builtInSteps } from '@llm-d/steps';
import { describe, expect, it } from '@jest/globals';
import { configurationPage } from './pages.ts';
import { neededTables, refreshTables, tablesOf } from './refresh-tables.ts';

const page = readFileSync(configurationPage, 'utf8');

describe('docs/configuration.md', () => {
  it('shows what the schemas say (after a change: node --conditions=@llm-d/source tools/check-docs/src/main.ts)', () => {
    expect(page).toBe(refreshTables(page));
  });

  it('has a table of every section and of every kind of step, once', () => {
    expect(tablesOf(page).toSorted()).toEqual(neededTables().toSorted());
  });

  it.each(configKeys)('tells what $path means', ({ meaning }) => {
    expect(meaning).toMatch(/\S.*[.)]$/);
  });

  it.each(
    builtInSteps.flatMap(({ type, params }) =>
      describeParams(params).map(({ name, meaning }) => ({ type, name, meaning })),
    ),
  )('tells what $name of $type means', ({ meaning }) => {
    expect(meaning).toMatch(/\S.*[.)]$/);
  });
});

describe('refreshTables', () => {
  const fresh = refreshTables('a\n\n<!-- params: encode -->\n\nb\n');

  it('writes a table below its marker and leaves the rest', () => {
    expect(fresh).toMatch(
      /^a\n\n<!-- params: encode -->\n\n\| Parameter +\| Default +\| Meaning +\|\n(\|.*\|\n)+\nb\n$/,
    );
    expect(fresh).toMatch(/\n\| `max_parallel` +\| `8` +\| \S.* \|\n/);
  });

  it('writes over a table that is old', () => {
    expect(refreshTables(fresh.replace('`8`', '`9` and more'))).toBe(fresh);
  });

  it.each(['<!-- keys: colours -->', '<!-- params: dekode -->'])('fails at %s', (marker) => {
    expect(() => refreshTables(marker)).toThrow(/is named (colours|dekode)$/);
  });
});
