import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { requestContext } from '@llm-d/pipeline/testing';
import { CoordinatorMetrics } from '@llm-d/telemetry';
import { summarize } from './request-summary.ts';

const root = join(import.meta.dirname, '../../..');
const page = readFileSync(join(root, 'docs/apps/coordinator.md'), 'utf8');

/** The rows of the table below a heading of the page, cell by cell. */
function rowsOf(heading: string, firstCell: RegExp): string[][] {
  const section = page.split(`\n## ${heading}\n`)[1]?.split('\n## ')[0] ?? '';
  return section
    .split('\n')
    .map((line) =>
      line
        .split('|')
        .slice(1, -1)
        .map((cell) => cell.trim()),
    )
    .filter(([first = '']) => firstCell.test(first));
}

describe('docs/apps/coordinator.md', () => {
  it('has every metric with its type and labels, and no other', () => {
    // The table of labels has fewer columns.
    const rows = rowsOf('Metrics', /^`(?:llm_d|media)_\w+`$/).filter(({ length }) => length === 4);
    const documented = rows.map(([name, type, labels]) => ({
      name: name?.replaceAll('`', ''),
      type,
      labels: labels === '' ? [] : labels?.replaceAll('`', '').split(', '),
    }));
    const { registry } = new CoordinatorMetrics();
    // prom-client does not say which types and labels a metric has, but keeps them.
    const real = registry.getMetricsAsArray().map((metric) => {
      const { name, type, labelNames } = metric as unknown as {
        name: string;
        type: string;
        labelNames: string[];
      };
      return { name, type, labels: labelNames };
    });
    expect(documented).toEqual(real);
  });

  it('has every field of the line of a request, and no other', () => {
    const documented = rowsOf('Log', /^`[a-z_]+`$/).map(([name]) => name?.replaceAll('`', ''));
    const summary = summarize(requestContext(), {
      ...{ error: undefined, status: 200, parseMs: 1, requestBytes: 1, responseBytes: 1 },
    });
    expect(documented.toSorted()).toEqual(Object.keys(summary).toSorted());
  });
});
